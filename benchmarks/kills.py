"""Kills commands at random moments and runs them again: python benchmarks/kills.py [--kills 20] [--only convert infer]

Each command first runs undisturbed, which gives the expected files and its duration. Then it is killed with SIGKILL at
moments drawn from that duration, alternating between its whole process group and its main process alone, and is run
again until it ends. The files must be the same as without kills, byte by byte except for times, and nothing else may be
left: no hidden files, no drafts, no processes. Files of commands that write each file whole are also compared after
each kill. The exit status is 1 if there are faults.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 90                              # seconds until all processes of a killed command must have ended
REFUSALS = 5                               # failed runs in a row before a command counts as not repeatable
MARK = 'MS_CRF_KILLS'                      # environment variable that identifies the processes of a command
SMALL = ['--word-dim', '20', '--hidden', '20', '--char-dim', '6', '--char-width', '6', '--epochs', '6', '--train',
         'train.tsv', '--dev', 'dev.tsv', '--test', 'test.tsv']
#: files that differ between equal runs: written at each start, or with hashes of files that contain times
UNCOMPARED = {'lock', 'checksums.json'}


@dataclass
class Command:
    """A command that is run in a folder with the files of `prepare`.

    Args:
        arguments: arguments of `python`.
        resumed: arguments that resume the command if `run` exists; None if the same command resumes.
        whole: whether the command writes each file atomically.
    """

    arguments: list[str]
    resumed: list[str] | None = None
    whole: bool = False

    def next_arguments(self, folder: Path) -> list[str]:
        return self.resumed if self.resumed and (folder / 'run').exists() else self.arguments


TRAIN = ['train.py', *SMALL, '--save', 'run']
COMMANDS = {
    'train': Command(TRAIN, ['train.py', '--resume', 'run']),
    'train-workers': Command([*TRAIN, '--workers', '2'], ['train.py', '--resume', 'run', '--workers', '2']),
    'train-seeds': Command(['train.py', *SMALL, '--save', 'runs', '--seeds', '2', '--jobs', '2']),
    'infer': Command(['infer.py', '--run', 'hmm', '--input', 'texts', '--output', 'tagged'], whole=True),
    'convert': Command(['-m', 'ms_crf', 'convert', 'large.tsv', 'large.jsonl', '--to', 'tokens'],
                       whole=True),
    'tag-many': Command(['-m', 'ms_crf', 'tag-many', '--run', 'hmm', '--input', 'texts', '--output', 'tagged',
                         '--workers', '2'], whole=True)}


def prepare(folder: Path) -> None:
    """Writes the input of all commands: small corpora, a large one, texts, and a hidden Markov model."""
    folder.mkdir()
    for part, count in (('train', 300), ('dev', 60), ('test', 60)):
        sentences = (ROOT / 'data' / f'{part}.tsv').read_text(encoding='utf-8').split('\n\n')
        (folder / f'{part}.tsv').write_text('\n\n'.join(sentences[:count]) + '\n\n', encoding='utf-8')
    sentences = (ROOT / 'data' / 'train.tsv').read_text(encoding='utf-8').strip('\n').split('\n\n')
    (folder / 'large.tsv').write_text(('\n\n'.join(sentences) + '\n\n') * 15, encoding='utf-8')
    (folder / 'texts').mkdir()
    lines = [' '.join(row.split('\t')[0] for row in sentence.split('\n')) + '\n' for sentence in sentences]
    for number in range(8):
        (folder / 'texts' / f'{number}.txt').write_text(''.join(lines[number::8]) * 8, encoding='utf-8')
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    subprocess.run([sys.executable, ROOT / 'train.py', '--model', 'hmm', '--train', 'train.tsv', '--dev', 'dev.tsv',
                    '--save', 'hmm'], cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the contents of all files by name, without times and other values that differ between equal runs."""
    return {str(path.relative_to(folder)): b'' if path.name in UNCOMPARED else timeless(path)
            for path in folder.rglob('*') if path.is_file()}


def timeless(path: Path) -> bytes:
    """Returns the bytes of a file; in JSON records, values in seconds are removed."""
    data = path.read_bytes()
    if path.name not in ('metrics.jsonl', 'scores.json', 'seeds.json'):
        return data
    records = map(json.loads, data.splitlines()) if path.suffix == '.jsonl' else [json.loads(data)]
    return json.dumps([{name: value for name, value in record.items() if 'seconds' not in name}
                       for record in records]).encode()


def alive(mark: str) -> list[psutil.Process]:
    """Returns the running processes that have this mark in their environment."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


@dataclass
class Trial:
    """A command that is killed again and again."""

    name: str
    command: Command
    base: Path
    tally: Counter = field(default_factory=Counter)
    faults: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.mark = f'{self.name}-{uuid.uuid4()}'
        self.temporary = self.base / f't{list(COMMANDS).index(self.name)}'           # short: Ray refuses long paths
        self.temporary.mkdir()

    def start(self, folder: Path, log: Path) -> subprocess.Popen:
        program, *others = self.command.next_arguments(folder)
        arguments = [program if program == '-m' else str(ROOT / program), *others]
        environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'TMPDIR': str(self.temporary), MARK: self.mark}
        with open(log, 'wb') as file:
            return subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environment, stdout=file, stderr=file,
                                    start_new_session=True)

    def fresh(self, name: str) -> Path:
        folder = self.base / f'{self.name}-{name}'
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.base / 'input', folder)
        return folder

    def run(self, kills: int, generator: random.Random) -> None:
        log = self.base / f'{self.name}.log'
        folder = self.fresh('undisturbed')
        began = time.monotonic()
        if self.start(folder, log).wait():
            sys.exit(f'{self.name}: the undisturbed run failed: {log.read_text()[-2000:]}')
        self.seconds = time.monotonic() - began
        self.expected = contents(folder)
        self.end_processes('the undisturbed run')
        self.leaves_temporaries = any(self.temporary.iterdir())
        folder, killed_before, refusals = self.fresh('killed'), False, 0
        while self.tally['kills'] < kills or killed_before:
            last = self.tally['kills'] >= kills
            process = self.start(folder, log)
            self.tally['restarts'] += killed_before
            try:
                status = process.wait(20 * self.seconds + PATIENCE if last else generator.uniform(0, self.seconds))
            except subprocess.TimeoutExpired:
                self.kill(process)
                if last:
                    self.faults['does not end when it is run again'] += 1
                    break
                killed_before, refusals = True, 0
                self.compare(folder, ended=False)
                continue
            if status:
                line = (log.read_text(errors='replace').strip().splitlines() or [''])[-1]
                self.faults[f'refused to run again: {line[:300]}'] += 1
                refusals += 1
                self.end_processes('a killed command')
                if refusals < REFUSALS:
                    continue
            else:
                self.end_processes('the last run')
                self.compare(folder, ended=True)
            folder, killed_before, refusals = self.fresh('killed'), False, 0
        self.end_processes('the last run')
        if not self.leaves_temporaries:
            for path in self.temporary.iterdir():
                self.faults[f'left in TMPDIR: {path.name.rpartition("-")[0] or path.name[:3]}...'] += 1

    def kill(self, process: subprocess.Popen) -> None:
        """Kills the process group and only the main process, alternating from call to call."""
        self.tally['kills'] += 1
        if self.tally['kills'] % 2:
            self.tally['of the group'] += 1
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()

    def end_processes(self, what: str) -> None:
        """Waits until all processes of the command have ended; after PATIENCE seconds, counts and kills the rest."""
        limit = time.monotonic() + PATIENCE
        while (processes := alive(self.mark)) and time.monotonic() < limit:
            time.sleep(0.2)
        for process in processes:
            try:
                self.faults[f'{what} has left a process {PATIENCE} s later: {" ".join(process.cmdline())[:80]}'] += 1
                process.kill()
            except psutil.Error:
                continue

    def compare(self, folder: Path, ended: bool) -> None:
        if not ended and not self.command.whole:
            return
        try:
            found = contents(folder)
        except FileNotFoundError:                    # processes of the killed command are still running
            return
        self.tally['ends'] += ended
        for name, data in found.items():
            if name in self.expected and data != self.expected[name]:
                self.faults[f'{"different" if ended else "half-written"}: {name}'] += 1
            elif name not in self.expected and ended:
                hidden = Path(name).parent / ''.join('N' if letter.isdigit() else letter for letter in Path(name).name)
                self.faults[f'left over: {hidden}'] += 1
        for name in self.expected.keys() - found.keys() if ended else ():
            self.faults[f'missing: {name}'] += 1

    def line(self) -> str:
        identical = not any(fault.startswith(('different', 'missing', 'half', 'does not')) for fault in self.faults)
        left = sum(count for fault, count in self.faults.items() if 'left' in fault)
        return (f'{self.name}: {self.tally["kills"]} kills ({self.tally["of the group"]} of the process group) within '
                f'{self.seconds:.1f} s, {self.tally["restarts"]} restarts, {self.tally["ends"]} times to the end, '
                f'{"identical" if identical else "NOT identical"}, {left or "no"} leftovers')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--kills', type=int, default=20, help='kills of each command (default: 20)')
    parser.add_argument('--only', nargs='+', choices=list(COMMANDS), default=list(COMMANDS), metavar='NAME',
                        help=f'of {", ".join(COMMANDS)} (default: all)')
    parser.add_argument('--seed', type=int, default=1, help='seed of the random moments (default: 1)')
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    status = 0
    with tempfile.TemporaryDirectory(prefix='kills-') as base:
        prepare(Path(base) / 'input')
        for name in arguments.only:
            trial = Trial(name, COMMANDS[name], Path(base))
            try:
                trial.run(arguments.kills, random.Random(f'{arguments.seed} {name}'))
            finally:
                for process in alive(trial.mark):                # left over if this benchmark itself was stopped
                    process.kill()
            print(trial.line())
            for fault, count in trial.faults.items():
                print(f'    {count} x {fault}')
            sys.stdout.flush()
            status |= bool(trial.faults)
    return status


if __name__ == '__main__':
    sys.exit(main())
