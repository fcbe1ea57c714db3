"""Layer 10: tagging many files at once: shards, their rows, the worker, and the engine that has many workers.

It knows taggers and text, and of kinds of model only what all decoders offer.
"""
