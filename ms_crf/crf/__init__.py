"""Layer 2: linear-chain conditional random fields: scores, normalizer, posteriors, best paths and the CRF layer.

This folder uses MindSpore and NumPy. It does not depend on networks, text or files.
"""
