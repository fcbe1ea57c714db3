"""Layer 6: the output of tagged sentences: text with brackets, columns, JSON lines and HTML.

It may know sentences and formats, but not models.
"""
