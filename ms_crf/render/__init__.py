"""Layer 6: how tagged sentences are written: text with brackets, columns, JSON lines and HTML.

It knows sentences and formats, and nothing of models.
"""
