"""Layer 8: the model types, one folder for each, and their common parts: batches, compiled graphs and exported graphs.

This layer uses the CRF, the network cells and the text functions. It does not use the commands.
"""
