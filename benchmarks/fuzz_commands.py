"""Fuzzing of the commands for benchmarks/fuzz.py, in separate processes, or in the worker if a command is quick."""

import contextlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ms_crf.cli.console import FAULT, VERBS
from ms_crf.formats.registry import SOURCES, TARGETS

from fuzz_examples import OF_SPANS, OF_TAGS, clean, partial, tags_of, wild, write
from fuzz_material import MEMORY, ROOT, SECONDS, Failure, check, check_memory, end, tree_of
from fuzz_text import SPLITTERS, hostile
from mutations import bytes_of, record_of

WHOLE = 'infer', 'convert', 'suggest'            # must leave no files if they reject their input
NOISE = 'Traceback', '[ERROR]', '[WARNING]', '[CRITICAL]', 'Warning:', 'Exception ignored', 'C++ Call Stack'


class Commands:
    """Cases of commands; some of their input files are damaged.

    Args:
        material: the source of all inputs.
    """

    refusals = ()

    def __init__(self, material):
        self.material = material
        self.quick = [self.tag_file, self.tag_raw, self.score_partial, self.train_on_file, self.convert, self.convert,
                      self.suggest]
        self.cases = [self.call]
        self.all = [*self.quick, self.tag_with_damaged_run, self.train_with_options, self.export, self.resume,
                    self.evaluate]

    # Each function returns a command: the verb and its arguments

    def _output(self, rng, *names):
        return ['--output', self.material.case / rng.choice(names)] if rng.random() < 0.6 else []

    def _extra(self, rng, *options):
        return rng.choice([[], [], [], *options])

    def _examples(self, rng, damaged):
        """Writes a file of annotated text in a random format, optionally damaged; returns its path."""
        kind = rng.choice([*OF_SPANS, *OF_TAGS])
        examples = [clean(rng) if kind in OF_TAGS else rng.choice([clean, wild])(rng) for _ in range(rng.randint(1, 3))]
        path = write(rng, self.material, kind, examples)
        if damaged and os.path.isfile(path):
            Path(path).write_bytes(bytes_of(rng, Path(path).read_bytes()))
        return path

    def tag_file(self, rng):
        data = rng.choice([self.material.columns, self.material.json_lines])
        path = self.material.file(rng.choice(['i.tsv', 'i.jsonl', 'i.txt', 'i.conllu', 'i.gz']), bytes_of(rng, data))
        extra = self._extra(rng, ['--format', rng.choice(['json', 'conll', 'html'])], ['--confidence'], ['--score'],
                            ['--strict'], ['--nbest', rng.choice(['2', '-1', '1000000000000', 'x'])], ['--chars'],
                            ['--columns', rng.choice(['0', '9', 'a'])], ['--temperature', 'nan'])
        return 'infer', ['--run', self.material.runs['hmm'], '--input', path, *extra, *self._output(rng, 'o', 'o.tsv')]

    def tag_raw(self, rng):
        data = hostile(rng, 300).encode('utf-8', rng.choice(['replace', 'surrogatepass']))
        path = self.material.file('raw.txt', data)
        extra = self._extra(rng, ['--format', rng.choice(['json', 'conll', 'html'])], ['--strict'])
        return 'infer', ['--run', self.material.runs['hmm'], '--input', path, '--raw', '--splitter', rng.choice(
            [*SPLITTERS, 'spacy-th', 'spacy-qq', 'x']), *extra, *self._output(rng, 'out')]

    def score_partial(self, rng):
        """`infer --score` on partially annotated text."""
        examples = [clean(rng)]
        tags = [[partial(rng, own, '?') for own in tags_of(examples[0], rng.choice(['BIO', 'BIOES']))]]
        path = write(rng, self.material, rng.choice(['tokens', 'columns', 'conllu']), examples, tags)
        if rng.random() < 0.3:
            Path(path).write_bytes(bytes_of(rng, Path(path).read_bytes()))
        columns = ['--columns', '1,9'] if path.endswith('.conllu') else []
        return 'infer', ['--run', self.material.runs['hmm'], '--input', path, '--score', *columns,
                         *self._extra(rng, ['--unknown-tag', ''], ['--unknown-tag', 'XX'])]

    def train_on_file(self, rng):
        files, index = list(self.material.files), 1 + 2 * rng.randrange(3)
        if rng.random() < 0.5:
            files[index] = self.material.file(rng.choice(['t.tsv', 't.jsonl']),
                                              bytes_of(rng, Path(files[index]).read_bytes()))
        else:
            files[index] = self._examples(rng, rng.random() < 0.3)
        return 'train', [*files, '--model', 'hmm', '--save', self.material.case / 'new', '--overwrite',
                         *self._extra(rng, ['--scheme', 'BIOES'], ['--splitter', rng.choice(SPLITTERS)])]

    def convert(self, rng):
        extra = self._extra(rng, ['--from', rng.choice(SOURCES)], ['--splitter', rng.choice(SPLITTERS)],
                            ['--scheme', rng.choice(['BIOES', 'IOB1', 'plain'])], ['--each'],
                            ['--columns', rng.choice(['0,1', '1,9'])], ['--tag-column', rng.choice(['4', '99'])],
                            ['--unknown-tag', rng.choice(['', 'O'])])
        target = rng.choice(['o', 'o.ann', 'o.jsonl', 'o.conllu', 'o.tsv', 'missing/o.tsv', ''])
        return 'convert', [self._examples(rng, rng.random() < 0.4), self.material.case / target,
                           '--to', rng.choice(TARGETS), *extra]

    def suggest(self, rng):
        raw, data = rng.random() < 0.5, rng.choice([self.material.columns, self.material.json_lines])
        if raw:
            path = self.material.file('raw.txt', hostile(rng, 300).encode('utf-8', 'replace'))
        else:
            path = self.material.file(rng.choice(['i.tsv', 'i.jsonl', 'i.txt']),
                                      bytes_of(rng, data) if rng.random() < 0.5 else data)
        extra = self._extra(rng, ['--by', rng.choice(['mnlp', 'token-entropy'])], ['--ngram', '3'],
                            ['--count', rng.choice(['1', '0', 'x'])], ['--near', rng.choice(['0', '1', 'nan', '2'])],
                            ['--known', self._examples(rng, False)], ['--format', rng.choice(TARGETS)])
        return 'suggest', ['--run', self.material.runs['hmm'], '--input', path, *['--raw'] * raw, *extra,
                           *self._output(rng, 'o', 'o.ann', 'o.conllu', 'o.tsv')]

    def tag_with_damaged_run(self, rng):
        run = self.material.damaged_run(rng, rng.choice(['hmm', 'words']))
        return 'infer', ['--run', run, '--text', 'a b c', *self._extra(rng, ['--format', 'json'])]

    def train_with_options(self, rng):
        options = {'hidden': 6, 'word_dim': 4, 'epochs': 1, 'layers': 1, 'average': 0.5}
        return 'train', [*self.material.files, '--config', self.material.file('o.json', record_of(rng, options)),
                         '--save', self.material.case / 'new', '--overwrite', '--device', 'CPU']

    def export(self, rng):
        return 'export', ['--run', self.material.damaged_run(rng, 'words'), '--output', self.material.case / 'g.mindir',
                          *self._extra(rng, ['--static', '2', '5'], ['--static', '0', '10000000000'])]

    def resume(self, rng):
        return 'train', ['--resume', self.material.damaged_run(rng, 'words'), *self._extra(rng, ['--epochs', '2'])]

    def evaluate(self, rng):
        return 'evaluate', ['--run', self.material.runs[rng.choice(['hmm', 'words'])], '--input',
                            self._examples(rng, rng.random() < 0.3)]

    # Running the commands

    def call(self, rng):
        """Runs a random quick command in this process; returns its result."""
        verb, words = rng.choice(self.quick)(rng)
        before = self._files()
        with open(self.material.file('../stdout', b''), 'w+', encoding='utf-8') as output, io.StringIO() as errors:
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                status = importlib.import_module(f'ms_crf.cli.{verb}').main(list(map(str, words)))
            return self._judge(verb, words, status, Path(output.name).read_bytes(), errors.getvalue(), before)

    def process(self, rng):
        """Runs a random command in a separate process; returns a label and its result, or raises Failure."""
        self.material.case.mkdir(parents=True, exist_ok=True)
        verb, words = rng.choice(self.all)(rng)
        name, before = VERBS[verb][0], self._files()
        program = [name] if name.endswith('.py') else ['-m', *name.replace('ms-crf', 'ms_crf').split()]
        with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [sys.executable, *program, *map(str, words)], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
                stderr=errors)
            try:
                status, peak = self._wait(process)
            except Failure as error:
                end(tree_of(process.pid))
                os.wait4(process.pid, 0)
                raise Failure(f'{verb} {shown(words)}: {error}') from None
            finally:
                process.returncode = 0                   # `_wait` has already waited for the process
            errors.seek(0)
            output.seek(0)
            result = self._judge(verb, words, status, output.read(), errors.read().decode('utf-8', 'replace'), before)
        check(peak <= MEMORY, f'{verb} {shown(words)}: {peak / 2 ** 30:.1f} GB of memory')
        return verb, result

    @staticmethod
    def _wait(process):
        """Waits for a process; returns its exit code and peak memory in bytes. Raises Failure beyond the limits."""
        began = time.monotonic()
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10
            check(time.monotonic() - began < SECONDS, f'no end after {SECONDS} s')
            check_memory(process.pid)
            time.sleep(0.05)

    def _files(self):
        return {path: path.stat().st_size for path in self.material.case.rglob('*') if path.is_file()}

    def _judge(self, verb, words, status, output, errors, before):
        """The result of a command; raises Failure if the command broke a rule for status, messages or files."""
        lines = errors.strip().splitlines()
        why = None
        if status not in (0, FAULT):
            why = f'status {status}'
        elif any(noise in errors or noise.encode() in output for noise in NOISE):
            why = 'a line of MindSpore, or a traceback'
        elif status == FAULT and not (lines and lines[-1].startswith(f'{VERBS[verb][0]}: ')):
            why = 'no line that says what is wrong'
        elif status == FAULT and verb in WHOLE and self._files() != before:
            why = f'refused, but wrote {sorted(map(str, self._files().keys() ^ before.keys()))}'
        check(why is None, f'{verb} {shown(words)}: {why}: {errors[-1500:]}')
        return f'{verb}, {"ok" if status == 0 else "refused"}'


def shown(words):
    return ' '.join(map(str, words))
