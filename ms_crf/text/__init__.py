"""Layer 4: tagged text in memory: sentences, spans, tag schemes, splitters for raw text, and scores.

It uses Python and NumPy, and does not know MindSpore.
"""
