"""Layer 5: file formats of annotated text. Each format has its own module; all formats read and write `Document`s.

The layer knows files, tag schemes and text splitters. It does not know models.
"""
