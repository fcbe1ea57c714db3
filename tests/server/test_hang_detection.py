"""When the server decides that its model process hangs; the process is faked by a count of answers and a CPU time."""

from types import SimpleNamespace

from ms_crf.server.process import LONGEST, HangDetector


class Tagging:
    """A busy fake process and its hang detector; each call of `look` stands for one check after half a second."""

    def __init__(self, seconds):
        self.process = SimpleNamespace(busy=True, answers=0, seconds_of_cpu=lambda: self.cpu)
        self.cpu, self.detector = 1.0, HangDetector(seconds)

    def look(self, elapsed=.5, cpu=0.0):
        self.cpu += cpu
        return self.detector.fault(self.process, elapsed)


def test_hang_detection_a_process_without_cpu_time_hangs_after_the_limit():
    tagging = Tagging(3)
    assert [bool(tagging.look()) for _ in range(8)] == [False] * 6 + [True] * 2


def test_hang_detection_an_idle_process_never_hangs():
    tagging = Tagging(3)
    tagging.process.busy = False
    assert not any(tagging.look() for _ in range(1000))


def test_hang_detection_a_slow_process_is_left_alone_as_long_as_it_computes():
    tagging = Tagging(3)
    looks = [bool(tagging.look(cpu=.01)) for _ in range(2 * LONGEST * 3 + 1)]
    assert looks == [False] * (2 * LONGEST * 3 - 1) + [True] * 2


def test_hang_detection_each_batch_has_a_limit_of_its_own():
    tagging = Tagging(3)
    for _ in range(2000):
        assert not tagging.look(cpu=.01)
        tagging.process.answers += 1


def test_hang_detection_time_in_which_nobody_looked_counts_little():
    """A long gap between two checks, as after the machine was suspended, must not count as a hang."""
    tagging = Tagging(3)
    tagging.look()
    assert not tagging.look(elapsed=1000) and not tagging.look(elapsed=1000) and tagging.look(elapsed=1000)
