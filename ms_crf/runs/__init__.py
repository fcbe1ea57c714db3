"""Ring 4: the run directory: its files, how a crash leaves them whole, how it is made and locked.

It knows text and options, and of models only what their records hold.
"""
