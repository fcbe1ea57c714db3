"""Layer 10: tagging many files in parallel: shards, rows, the worker, and the Ray engine that runs workers.

It may know taggers and text, but only those functions of models that all model types have.
"""
