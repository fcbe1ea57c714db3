"""How a training ends before its time."""


class Stopped(Exception):
    """The user has stopped the run; it is saved."""


class NotFinite(Exception):
    """The loss is no number; what was saved before stays."""
