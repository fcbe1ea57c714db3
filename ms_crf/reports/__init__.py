"""Layer 10: what is said of a run: figures of a tagged file, pictures of them, and the page that holds both.

It knows runs, taggers and text, and of kinds of model only what all decoders offer.
"""
