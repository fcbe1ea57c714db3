"""Layer 9: training by gradient steps: the compiled step, the optimizer, schedules, and the course of a run.

It knows what a model that can be trained offers, and no kind of model by name.
"""
