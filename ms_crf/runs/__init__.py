"""Layer 7: the run directory: what its files hold, how they are replaced so that no crash loses them, how it is locked.

It knows text and options, and of models only what their records hold.
"""
