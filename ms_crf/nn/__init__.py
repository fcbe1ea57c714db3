"""Layer 3: the cells of networks: BiLSTM, characters, transformer, heads, and the network `BiLSTM_CRF`.

The folder uses the CRF, and does not know text or files.
"""
