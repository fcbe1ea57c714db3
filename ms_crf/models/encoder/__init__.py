"""Layer 8: the tagger over a pretrained encoder: the encoder's files, windows of subwords and the network above them.

It knows what all kinds of model share and none of the other kinds.
"""
