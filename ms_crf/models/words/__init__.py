"""Layer 8: the tagger over word vectors and characters: its vocabulary, batches and network.

It knows what all kinds of model share and none of the other kinds.
"""
