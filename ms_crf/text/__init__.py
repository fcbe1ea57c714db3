"""Layer 4: tagged text in memory: sentences and spans, tag schemes, splitters of raw text, scores of tags.

Plain Python and NumPy; it knows nothing of MindSpore.
"""
