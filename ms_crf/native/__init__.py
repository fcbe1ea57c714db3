"""Layer 1: C++ operators on CPU: how they are compiled, loaded and called. The operators are in folders of other
layers.

This folder uses MindSpore and the files of the package. It does not depend on chains or networks.
"""
