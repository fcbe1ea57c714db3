"""Layer 4: tagged text: files that are read and written, tag schemes, corpora and their scores.

Plain Python and NumPy; it knows nothing of MindSpore.
"""
