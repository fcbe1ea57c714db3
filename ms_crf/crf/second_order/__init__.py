"""Layer 2: second derivatives of normaliser, loss and posteriors: what is differentiated in place of the recursions.

It alone knows how MindSpore compiles a `bprop`, and it raises an error if a release of MindSpore does that differently.
"""
