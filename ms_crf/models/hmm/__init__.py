"""Layer 8: the hidden Markov model, for use in programs and as a model type.

This package needs no MindSpore. It uses the common parts of model types, and no other model type.
"""
