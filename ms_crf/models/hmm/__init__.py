"""Layer 8: the hidden Markov model, by itself and as a tagger.

It needs no MindSpore, knows what all kinds of model share and none of the other kinds.
"""
