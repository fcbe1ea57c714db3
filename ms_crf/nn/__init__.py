"""Layer 3: the cells of networks: BiLSTM, characters, transformer, heads, and the network `BiLSTM_CRF`.

This folder uses the CRF and does not depend on text or files.
"""
