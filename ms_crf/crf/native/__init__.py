"""Layer 2: the chain in C++, as operators for MindSpore on CPU, which `cells` calls and gives gradients.

The C++ knows nothing of MindSpore but the form of a call, and the rest of the package nothing of the C++.
"""
