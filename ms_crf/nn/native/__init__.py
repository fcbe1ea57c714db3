"""Layer 3: the recursion of a bidirectional LSTM in C++, as operators for MindSpore on CPU, which `cells` calls.

The C++ knows nothing of MindSpore but the form of a call, and the rest of the package nothing of the C++.
"""
