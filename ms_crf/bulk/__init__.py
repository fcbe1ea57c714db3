"""Ring 6: tagging many files at once: their rows, the rows that are written, the worker, and the engine that has many.

It knows taggers and text, and of kinds of model only what all decoders offer.
"""
