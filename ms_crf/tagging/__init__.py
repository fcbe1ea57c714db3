"""Layer 9: tagging with trained models, and the selection of sentences for active learning.

It may know decoders and text, but no particular model type.
"""
