"""Layer 8: the tagger over word vectors and characters: vocabulary, batches, network and model type.

This package uses the common parts of model types, and no other model type.
"""
