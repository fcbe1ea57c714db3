"""Layer 10: several trainings at once: seeds, folds and comparisons.

It knows trainings and taggers, and of kinds of model only what all of them offer.
"""
