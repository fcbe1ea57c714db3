"""Feeds damaged files and odd values to the readers and to the commands; nothing may end but in one clear line.

    python benchmarks/fuzz.py --minutes 5

Readers are called in process, commands as processes. Allowed are a result, or the project's own errors in one line; a
traceback, another exception, a hang over a minute, memory over four gigabytes or a line of the framework is a failure,
whose input is kept. Each case follows from the seed and its number alone: `--seed S --only N` repeats it.
"""

import argparse
import collections
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ms_crf import options  # noqa: E402
from ms_crf.text import readers  # noqa: E402

from fuzz_commands import Commands  # noqa: E402
from fuzz_functions import Functions  # noqa: E402
from fuzz_material import MEMORY, SECONDS, Failure, Material  # noqa: E402
from fuzz_readers import Readers  # noqa: E402

OURS = (readers.CorpusError, options.OptionError)


def in_process(cases, seed, number):
    """One of these cases, in this process; raises Failure."""
    rng = random.Random(f'{seed} {number}')
    read = rng.choice(cases)
    accepted = (ValueError, TypeError, *OURS) if read.__name__.startswith('call') else OURS
    signal.alarm(SECONDS)
    try:
        read(rng)
        return read.__name__, 'ok'
    except accepted as error:
        message = str(error)
        if not message.strip() or '\n' in message.strip() or len(message) > 1000:
            raise Failure(f'{read.__name__}: a message of no or several lines: {message[:300]!r}') from None
        if any(
            words in message for words in ('Traceback', 'inhomogeneous', 'setting an array', 'could not convert')
        ):
            raise Failure(f'{read.__name__}: a message of another program: {message!r}') from None
        return read.__name__, 'refused'
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise Failure(f'{read.__name__}: {"".join(traceback.format_exception(error))}') from None
    finally:
        signal.alarm(0)


def keep(case, folder, name, error):
    """Puts a failing case away: its message, and its files."""
    place = Path(folder) / name
    place.mkdir(parents=True, exist_ok=True)
    (place / 'message.txt').write_text(str(error), encoding='utf-8', errors='backslashreplace')
    if case.exists():
        shutil.copytree(case, place / 'files', dirs_exist_ok=True)


def main():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('--minutes', type=float, default=5, help='stop after so long (default: 5)')
    made.add_argument('--cases', type=int, default=10**9, help='cases in process at most')
    made.add_argument('--commands', type=int, default=10**9, help='commands at most; they get half of the time')
    made.add_argument('--seed', type=int, default=None, help='of all cases (default: the clock)')
    made.add_argument('--only', type=int, help='this case in process alone')
    made.add_argument('--only-command', type=int, help='this command alone')
    made.add_argument('--keep', default='fuzz-failures', help='folder for inputs that fail (default: %(default)s)')
    parsed = made.parse_args()
    seed = int(time.time()) if parsed.seed is None else parsed.seed
    print(f'seed {seed}', flush=True)
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError(f'no end after {SECONDS} s')))
    counts, failures = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        material, case = Material(Path(folder)), Path(folder) / 'case'
        cases = Readers(material).cases + Functions(material).cases
        # Readers come into this process's memory: what is far too much fails here.
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf('SC_PAGE_SIZE') + MEMORY,) * 2)
        chosen = parsed.only is not None or parsed.only_command is not None
        for name, work, only, most in (
            ('command', Commands(material).command, parsed.only_command, parsed.commands),
            ('case', partial(in_process, cases), parsed.only, parsed.cases),
        ):
            numbers = range(most) if not chosen else [] if only is None else [only]
            until, done = time.monotonic() + 30 * parsed.minutes, 0
            for number in numbers:
                if time.monotonic() > until:
                    break
                done += 1
                try:
                    counts[work(seed, number)] += 1
                except Failure as error:
                    failures += 1
                    print(f'{name} {number}: {str(error)[:600]}', flush=True)
                    keep(case, parsed.keep, f'{seed}-{name}-{number}', error)
                shutil.rmtree(case, ignore_errors=True)
            print(f'{done} {name}s', flush=True)
    for (name, result), count in sorted(counts.items()):
        print(f'{name:<20}{result:<10}{count:>8}')
    print(f'{failures} failures' + (f', kept in {parsed.keep}' if failures else ''))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
