"""Layer 9: training: start and resume, epochs, the compiled step with its optimizer, schedules, workers.

The folder knows the protocols in `models/base`, which every model type implements, and no model type by name.
"""
