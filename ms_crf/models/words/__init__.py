"""Layer 8: the tagger over word vectors and characters: vocabulary, batches, network and model type.

It may know the common parts of the model types, but no other model type.
"""
