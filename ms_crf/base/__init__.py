"""Layer 0: the base of all other folders: errors, records, files, memory, processes, devices.

It may know the operating system and how MindSpore starts, but not tags or models.
"""
