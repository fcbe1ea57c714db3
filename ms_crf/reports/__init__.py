"""Layer 10: evaluation of tagged files, and reports of runs as HTML pages with figures and plots.

The folder knows runs, taggers, text and the protocols in `models/base`, and no model type by name.
"""
