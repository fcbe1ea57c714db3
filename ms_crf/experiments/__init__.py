"""Layer 10: several trainings: seeds, cross-validation and comparisons of models.

The folder knows trainings, taggers and the protocols in `models/base`, and no model type by name.
"""
