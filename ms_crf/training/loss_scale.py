"""The factor that keeps small gradients of 16-bit floats from becoming 0, and follows what these can hold."""

FIRST, LEAST, MOST = 2.0 ** 16, 1.0, 2.0 ** 24
GROWS_AFTER = 2000           # steps without an overflow


class LossScale:
    """What the loss is multiplied with before its gradients are taken: half as much after a step that overflows."""

    def __init__(self):
        self.scale, self.good = FIRST, 0         # steps without an overflow since it was changed

    def take(self, finite):
        """Takes whether the loss and the gradients of a step were finite."""
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.scale /= 2
        elif self.good == GROWS_AFTER:
            self.scale, self.good = min(2 * self.scale, MOST), 0

    def exhausted(self):
        """Whether even the least scale has overflowed: the numbers themselves are too large, or none."""
        return self.scale < LEAST

    def state(self):
        """All there is to it, as two numbers."""
        return [self.scale, float(self.good)]

    def load(self, state):
        self.scale, self.good = float(state[0]), int(state[1])
