"""Layer 10: the HTTP server: routes, the web page, the queue with dynamic batching, and the model process.

This package uses taggers and text, and does not depend on the model type. Only `api` and `cli` import this package.
"""
