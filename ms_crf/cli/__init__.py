"""Layer 12: the commands: command lines are parsed, functions are called, results are printed.

It knows the functions of the package, and nothing else knows it.
"""
