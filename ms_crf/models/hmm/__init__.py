"""Layer 8: the hidden Markov model, for use in programs and as a model type.

It needs no MindSpore, and may know the common parts of the model types, but no other model type.
"""
