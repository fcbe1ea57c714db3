"""Layer 10: answers to requests over HTTP: a process that tags, the queue in front of it, routes and the page.

It knows taggers and text, and nothing of kinds of model; no other folder knows it.
"""
