"""What the engine of tag-many uses of Ray, in this process: actors whose calls run when their result is taken."""

from types import SimpleNamespace


class LocalRay:
    """Takes the place of Ray.

    Args:
        dies: is called with the name of a method and its arguments; whether the worker dies of the call.
    """

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        def __init__(self, cause):
            super().__init__(str(cause))
            self.cause = cause

    def __init__(self, dies=lambda name, *arguments: False):
        self.exceptions = SimpleNamespace(RayError=self.RayError, RayTaskError=self.RayTaskError)
        self.dies, self.killed, self.started = dies, [], 0

    def remote(self, kind):
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *given: self._actor(kind(*given))))

    def _actor(self, worker):
        self.started += 1
        return SimpleNamespace(**{name: SimpleNamespace(remote=lambda *given, name=name: _Call(worker, name, given))
                                  for name in ('begin', 'tag')})

    def wait(self, calls, num_returns, timeout):
        return calls[:num_returns], calls[num_returns:]

    def get(self, call):
        if self.dies(call.name, *call.given):
            raise self.RayError('the worker is gone')
        try:
            return getattr(call.worker, call.name)(*call.given)
        except Exception as error:
            raise self.RayTaskError(error) from None

    def kill(self, worker):
        self.killed.append(worker)

    def available_resources(self):
        return {'CPU': 8.0}

    def nodes(self):
        return [{'Alive': True}]


class _Call:
    """A call of a method that has not run yet."""

    def __init__(self, worker, name, given):
        self.worker, self.name, self.given = worker, name, given
