"""The worker process that runs the cases of benchmarks/fuzz.py, and the parent process that supervises the worker.

The parent names each case before the case begins. So a crash, a hang or too much memory is attributed to this case, and
a new worker continues with the next case.
"""

import faulthandler
import importlib
import multiprocessing
import os
import random
import resource
import traceback
from pathlib import Path
from typing import NamedTuple

from fuzz_material import MEMORY, SECONDS, Failure, Material, check_memory, end, tree_of

CASES = 1000                           # cases per worker, because MindSpore keeps every compiled graph in memory
ADDRESSES = 4 * MEMORY                 # address space of a worker, which protects the machine


class Kind(NamedTuple):
    """A kind of case.

    Attributes:
        home: module and class; the `cases` of the class are functions of a random generator.
        share: the percentage of cases of this kind.
        needs_models: whether models are trained first.
    """

    home: str
    share: int
    needs_models: bool = True


KINDS = {'readers': Kind('fuzz_readers.Readers', 20), 'functions': Kind('fuzz_functions.Functions', 12),
         'documents': Kind('fuzz_documents.Documents', 26, False), 'text': Kind('fuzz_text.Texts', 16, False),
         'calls': Kind('fuzz_commands.Commands', 8), 'operators': Kind('fuzz_operators.Inputs', 14, False),
         'server': Kind('fuzz_server.Requests', 4)}


class Worker:
    """The parent's view of the worker process: starts the worker, sends cases, and enforces the limits.

    Args:
        folder: working folder.
        seed: seed of all cases.
    """

    def __init__(self, folder, seed):
        self.folder, self.seed, self.material, self.process = folder, seed, Material(folder), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        context = multiprocessing.get_context('spawn')
        self.connection, other = context.Pipe()
        self.process, self.count = context.Process(target=_work, args=(other, self.folder)), 0
        self.process.start()
        other.close()

    def stop(self):
        """Asks the worker to end, and kills it and its children if they are still running."""
        if self.process is None:
            return
        processes = tree_of(self.process.pid)
        try:
            self.connection.send(None)
            self.process.join(SECONDS)
        except OSError:
            pass
        end(processes)
        self.process.join()
        self.process = None

    def run(self, kind, number):
        """Runs a case; returns a label and its result, or raises Failure."""
        if self.process is None or self.count == CASES:
            self.stop()
            self.start()
        self.count += 1
        try:
            self.connection.send((KINDS[kind].home, f'{self.seed} {kind} {number}', SECONDS))
            if not self.connection.poll(SECONDS + 30):           # the worker itself ends after SECONDS
                end(tree_of(self.process.pid))
            label, message = self.connection.recv()
            if message is None:
                check_memory(self.process.pid)
        except EOFError:
            self.process.join(SECONDS)
            status = self.process.exitcode
            self.stop()
            raise Failure(f'the process ended with status {status}: {self._last_lines()}') from None
        except Failure:
            self.stop()
            raise
        if message is not None:
            raise Failure(message)
        return label

    def _last_lines(self):
        text = (self.folder / 'errors.txt').read_text(encoding='utf-8', errors='replace')
        return text.partition('\nExtension modules')[0][-3000:]


def _work(connection, folder):
    """The worker process: receives (class, seed, time limit) of cases and runs them until it receives None."""
    folder.mkdir(parents=True, exist_ok=True)
    errors = os.open(folder / 'errors.txt', os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(errors, 2)
    os.dup2(errors, 1)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    material, homes = Material(folder), {}
    while (case := connection.recv()) is not None:
        home, seed, seconds = case
        if home not in homes:
            module, name = home.split('.')
            homes[home] = getattr(importlib.import_module(module), name)(material)
        Path('/proc/self/clear_refs').write_text('5')            # resets VmHWM, the peak memory, for this case
        faulthandler.dump_traceback_later(seconds, exit=True)
        connection.send(_outcome(homes[home], random.Random(seed)))
        faulthandler.cancel_dump_traceback_later()
    for home in homes.values():
        if hasattr(home, 'close'):
            home.close()


def _outcome(home, rng):
    """Runs a case; returns ((label, result), None), or (None, message) if the case fails."""
    case = rng.choice(home.cases)
    label = case.__name__.strip('_')
    try:
        return (label, case(rng) or 'ok'), None
    except home.refusals as error:
        message = str(error)
        if not message.strip() or '\n' in message.strip() or len(message) > 1000:
            return None, f'{label}: a message of no or several lines: {traceback.format_exc()}'
        if any(words in message for words in FOREIGN):
            return None, f'{label}: a message of another program: {traceback.format_exc()}'
        # Only JSON can store half of a surrogate pair, and column files cannot store a byte order mark.
        if label in getattr(home, 'never_refused', ()) and 'can hold' not in message and 'UTF-8' not in message:
            return None, f'{label}: a valid file is refused: {message}'
        return (label, 'refused'), None
    except Failure as error:
        return None, f'{label}: {error}'
    except Exception:
        return None, f'{label}: {traceback.format_exc()}'


FOREIGN = ('Traceback', 'inhomogeneous', 'setting an array', 'could not convert', 'C++ Call Stack')
