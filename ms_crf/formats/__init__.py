"""Layer 5: the formats that annotated text comes in and goes out in, a module for each, around one kind of document.

It knows files, schemes and splitters of text, and nothing of models.
"""
