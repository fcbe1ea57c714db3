"""Layer 3: the cells that networks are made of: BiLSTM, characters, transformer, the softmax head, `BiLSTM_CRF`.

It knows the chain and nothing of text or files.
"""
