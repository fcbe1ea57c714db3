"""Layer 10: the HTTP server: routes, the web page, the queue with dynamic batching, and the model process.

It may know taggers and text, but not model types; only `api` and `cli` may know it.
"""
