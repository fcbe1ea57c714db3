"""Layer 7: the run directory: the contents of its files, their crash-safe replacement, and its lock.

It may know text and options, but only the records of models.
"""
