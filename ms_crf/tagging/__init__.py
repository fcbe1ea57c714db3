"""Layer 9: the tagger of trained models, and what is chosen of the sentences that it tags.

It knows decoders and text, and no kind of model by name.
"""
