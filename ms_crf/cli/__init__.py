"""Layer 12: the commands, which parse command lines, call the functions of the package and print results.

It may know the functions of all other folders; no other folder may know it.
"""
