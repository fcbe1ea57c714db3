"""Layer 8: the model types, one folder for each, and their common parts: batches, compiled graphs and exported graphs.

It may know the CRF, the network cells and text, but not the commands.
"""
