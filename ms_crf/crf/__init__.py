"""Layer 2: the linear chain, tensors in and tensors out: scores, normaliser, posteriors, best paths, and the CRF layer.

It knows MindSpore and NumPy and nothing of networks, text or files.
"""
