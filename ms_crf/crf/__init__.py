"""Layer 2: linear-chain conditional random fields: scores, normalizer, posteriors, best paths and the CRF layer.

The folder uses MindSpore and NumPy, and does not know networks, text or files.
"""
