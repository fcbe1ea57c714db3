"""Layer 8: the kinds of model, a folder each, and what they share: batches, compiled graphs, exported graphs.

It knows the chain, the cells and text, and nothing of commands.
"""
