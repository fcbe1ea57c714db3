"""The commands under benchmarks/fuzz.py: each case runs one as a process, with one of its files damaged."""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz_material import MEMORY, ROOT, SECONDS, Failure
from mutations import bytes_of, record_of


class Commands:
    """Cases of commands.

    Args:
        material: what they are made of.
    """

    def __init__(self, material):
        self.material = material

    def arguments(self, rng):
        """The words of a command, one of its files damaged."""
        kind = rng.randrange(6)
        output = ['--output', str(self.material.folder / 'case' / 'out')] if rng.random() < 0.5 else []
        extra = rng.choice(
            [
                [],
                ['--format', 'json'],
                ['--format', 'conll'],
                ['--confidence'],
                ['--score'],
                ['--strict'],
                ['--nbest', rng.choice(['2', '-1', '1000000000000', 'x'])],
                ['--columns', rng.choice(['0', '9', 'a'])],
            ]
        )
        if kind == 0:
            data = rng.choice([self.material.columns, self.material.json_lines])
            name = rng.choice(['i.tsv', 'i.jsonl', 'i.txt', 'i.conllu', 'i.gz'])
            path = self.material.file(name, bytes_of(rng, data))
            return ['infer.py', '--run', self.material.runs['hmm'], '--input', path, *extra, *output]
        if kind == 1:
            return [
                'infer.py',
                '--run',
                self.material.damaged_run(rng, rng.choice(['hmm', 'words'])),
                '--text',
                'a b c',
                *extra,
            ]
        if kind == 2:
            files = list(self.material.files)
            at = 1 + 2 * rng.randrange(3)
            name = rng.choice(['t.tsv', 't.jsonl'])
            files[at] = self.material.file(name, bytes_of(rng, Path(files[at]).read_bytes()))
            folder = self.material.folder / 'case' / 'new'
            return ['train.py', *files, '--model', 'hmm', '--save', folder, '--overwrite']
        if kind == 3:
            path = self.material.file(
                'o.json', record_of(rng, {'hidden': 6, 'word_dim': 4, 'epochs': 1, 'layers': 1, 'average': 0.5})
            )
            return [
                'train.py',
                *self.material.files,
                '--config',
                path,
                '--save',
                self.material.folder / 'case' / 'new2',
                '--overwrite',
                '--device',
                'CPU',
            ]
        if kind == 4:
            return [
                '-m',
                'ms_crf.export',
                '--run',
                self.material.damaged_run(rng, 'words'),
                '--output',
                self.material.folder / 'case' / 'g.mindir',
                *rng.choice([[], ['--static', '2', '5'], ['--static', '0', '10000000000']]),
            ]
        return ['train.py', '--resume', self.material.damaged_run(rng, 'words'), *rng.choice([[], ['--epochs', '2']])]

    def command(self, seed, number):
        """One command as a process; raises Failure."""
        rng = random.Random(f'{seed} command {number}')
        (self.material.folder / 'case').mkdir(exist_ok=True)
        words = list(map(str, self.arguments(rng)))
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )
            began = time.monotonic()
            while True:
                done, status, usage = os.wait4(process.pid, os.WNOHANG)
                if done:
                    break
                if time.monotonic() - began > SECONDS:
                    process.kill()
                    os.wait4(process.pid, 0)
                    raise Failure(f'{words}: a hang')
                time.sleep(0.05)
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            output.seek(0)
            said, shown = errors.read().decode('utf-8', 'replace'), output.read().decode('utf-8', 'replace')
        own = words[0] if words[0] != '-m' else words[1]
        lines = said.strip().splitlines()
        why = None
        if process.returncode not in (0, 2):
            why = f'status {process.returncode}'
        elif any(
            bad in said + shown
            for bad in ('Traceback', '[ERROR]', '[WARNING]', '[CRITICAL]', 'Warning:', 'Exception ignored')
        ):
            why = 'a line of the framework or a traceback'
        elif process.returncode == 2 and not (lines and lines[-1].startswith(f'{own}: ')):
            why = 'no line that says what is wrong'
        elif usage.ru_maxrss * 1024 > MEMORY:
            why = f'{usage.ru_maxrss >> 20} GB of memory'
        if why:
            raise Failure(f'{words}: {why}: {said[-1500:]}')
        return own, 'ok' if process.returncode == 0 else 'refused'
