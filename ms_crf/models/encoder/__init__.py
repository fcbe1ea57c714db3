"""Layer 8: the tagger over a pretrained encoder: files of the encoder, windows of subwords, network and model type.

This package uses the common parts of model types, and no other model type.
"""
