"""Layer 5: file formats of annotated text, with a module for each format, and the document that all formats share.

It knows files, tag schemes and text splitters, and does not know models.
"""
