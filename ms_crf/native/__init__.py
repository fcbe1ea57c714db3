"""Layer 1: compilation, loading and calls of the C++ operators on CPU, whose sources are in folders of other layers.

The folder uses MindSpore and the files of the package, and does not know chains or networks.
"""
