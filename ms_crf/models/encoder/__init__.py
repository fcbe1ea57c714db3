"""Layer 8: the tagger over a pretrained encoder: files of the encoder, windows of subwords, network and model type.

It may know the common parts of the model types, but no other model type.
"""
