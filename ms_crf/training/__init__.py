"""Layer 9: training: start and resume, epochs, the compiled step with its optimizer, schedules, workers.

Uses the protocols of `ms_crf.models.base` only, so it works with every model type.
"""
