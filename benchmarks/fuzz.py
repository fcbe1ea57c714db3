"""Fuzzes readers, converters, splitters, operators, server and commands: each input gives a result or a one-line error.

    python benchmarks/fuzz.py --cases 10000 --commands 300
    python benchmarks/fuzz.py --minutes 5
    python benchmarks/fuzz.py --seed 7 --only text --case 41

Cases run in a worker process, commands in separate processes, both at the same time. A case passes if its result agrees
with an independent oracle, or if it ends with one of the project's own errors in one line. Failures are a traceback,
another exception, a wrong result, a crash, a timeout, more than 4 GB of memory (VmHWM of a process and of its
children), and output of MindSpore. Seed, kind and number determine a case: the last command above repeats a single
case. The exit status is 1 if anything failed.
"""

import argparse
import collections
import random
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz_commands import Commands  # noqa: E402
from fuzz_material import Failure, Material  # noqa: E402
from fuzz_worker import KINDS, Worker  # noqa: E402

COMMANDS = 'commands'


class Run:
    """One call of this program: runs cases and commands, counts results, prints and keeps failures.

    Args:
        folder: working folder.
        parsed: the parsed command-line arguments.
    """

    def __init__(self, folder, parsed):
        self.folder, self.parsed = folder, parsed
        self.until = time.monotonic() + 60 * parsed.minutes
        self.counts, self.failures, self.lock = collections.Counter(), 0, threading.Lock()

    def cases(self):
        with Worker(self.folder / 'cases', self.parsed.seed) as worker:
            kinds = [self.parsed.only] if self.parsed.only else [
                name for name, kind in KINDS.items() for _ in range(kind.share)]
            random.Random(0).shuffle(kinds)      # the same order for every seed
            self._all('cases', self.parsed.cases, lambda number: kinds[number % len(kinds)], worker.run,
                      worker.material.case)

    def commands(self):
        material = Material(self.folder / 'commands')
        commands = Commands(material)
        self._all(COMMANDS, self.parsed.commands, lambda _: COMMANDS,
                  lambda kind, number: commands.process(random.Random(f'{self.parsed.seed} {kind} {number}')),
                  material.case)

    def _all(self, what, count, kind_of, work, files):
        began, done = time.monotonic(), 0
        for number in range(count) if self.parsed.case is None else [self.parsed.case]:
            if time.monotonic() > self.until:
                break
            done, kind = done + 1, kind_of(number)
            try:
                label = work(kind, number)
            except Failure as error:
                self._failed(kind, number, error, files)
                label = '', 'FAILED'
            with self.lock:
                self.counts[(kind, *label)] += 1
            shutil.rmtree(files, ignore_errors=True)
        print(f'{done} {what} in {time.monotonic() - began:.0f} s', flush=True)

    def _failed(self, kind, number, error, files):
        """Prints a failure with the command that repeats it, and keeps its message and its files."""
        folder = Path(self.parsed.keep, f'{self.parsed.seed}-{kind}-{number}')
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'message.txt').write_text(str(error), encoding='utf-8', errors='backslashreplace')
        if files.exists():
            shutil.copytree(files, folder / 'files', dirs_exist_ok=True)
        with self.lock:
            self.failures += 1
            shown = str(error).encode('utf-8', 'backslashreplace').decode()
            print(f'{kind} {number}: {shown if len(shown) < 900 else f"{shown[:250]} … {shown[-650:]}"}\n'
                  f'    python benchmarks/fuzz.py --seed {self.parsed.seed} --only {kind} --case {number}', flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cases', type=int, default=10_000, help='number of cases (default: %(default)s)')
    parser.add_argument('--commands', type=int, default=300, help='number of commands (default: %(default)s)')
    parser.add_argument('--minutes', type=float, default=float('inf'), help='stop after this number of minutes')
    parser.add_argument('--seed', type=int, default=int(time.time()), help='seed of all cases (default: the clock)')
    parser.add_argument('--only', choices=(*KINDS, COMMANDS), metavar='KIND',
                        help=f'only this kind of case: {", ".join(KINDS)} or {COMMANDS}')
    parser.add_argument('--case', type=int, metavar='N', help='with --only: only this case')
    parser.add_argument('--keep', default='fuzz-failures', help='folder for failing inputs (default: %(default)s)')
    parsed = parser.parse_args()
    if parsed.case is not None and parsed.only is None:
        parser.error('--case needs --only')
    return parsed


def main():
    parsed = arguments()
    print(f'seed {parsed.seed}', flush=True)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as threads:
        run = Run(Path(name), parsed)
        if parsed.only in (None, COMMANDS) or KINDS[parsed.only].needs_models:
            Material(Path(name) / 'models').train()
        parts = [run.cases] * (parsed.only != COMMANDS) + [run.commands] * (parsed.only in (None, COMMANDS))
        for part in [threads.submit(part) for part in parts]:
            part.result()
    for (kind, label, result), count in sorted(run.counts.items()):
        print(f'{kind:<12}{label:<24}{result:<24}{count:>6}')
    print(f'{run.failures} failures' + (f', kept in {parsed.keep}' if run.failures else ''))
    return 1 if run.failures else 0


if __name__ == '__main__':
    sys.exit(main())
