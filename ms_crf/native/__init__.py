"""Layer 1: how operators in C++ are compiled, found and called on CPU; the operators are in the folders they belong to.

It knows MindSpore and the package's files, and nothing of chains or networks.
"""
