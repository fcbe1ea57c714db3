"""`deferred_signals` delays the effect of a first signal until a safe point."""

import os
import signal

from ms_crf.base import processes

import pytest


def test_deferred_signals_first_signal_waits_for_the_check():
    reached = []
    with pytest.raises(KeyboardInterrupt), processes.deferred_signals() as check:
        check()
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append('after the signal')
        check()
        reached.append('after the check')
    assert reached == ['after the signal']


def test_deferred_signals_second_signal_raises_at_once_and_handlers_are_restored():
    before = [signal.getsignal(number) for number in processes.SIGNALS]
    with pytest.raises(KeyboardInterrupt), processes.deferred_signals():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail('the second signal was ignored')
    assert [signal.getsignal(number) for number in processes.SIGNALS] == before


def test_deferred_signals_no_signal_no_effect():
    with processes.deferred_signals() as check:
        check()
