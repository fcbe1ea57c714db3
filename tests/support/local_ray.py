"""A replacement of Ray for tests of tag-many, in one process. A call of an actor runs when its result is fetched."""

from types import SimpleNamespace


class LocalRay:
    """The part of Ray's interface that tag-many uses.

    Args:
        dies: function of a method's name and arguments that returns whether the call ends the worker.
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
    """A call of an actor's method that has not run yet."""

    def __init__(self, worker, name, given):
        self.worker, self.name, self.given = worker, name, given
