"""Layer 0: what all other folders stand on: errors, records, files, memory, processes, devices.

It knows the operating system and how MindSpore starts, and nothing of tags or models.
"""
