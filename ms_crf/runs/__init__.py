"""Ring 4: the run directory: its files, how a crash leaves them whole, its place and its lock.

It knows text and options, and of models only what their records hold.
"""
