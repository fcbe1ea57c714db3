"""Feeds damaged files and odd values to the readers and to the commands; nothing may end but in one clear line.

    python benchmarks/fuzz.py --minutes 5

Readers are called in process, commands as processes. Allowed are a result, or the project's own errors in one line; a
traceback, another exception, a hang over a minute, memory over four gigabytes or a line of the framework is a failure,
whose input is kept. Each case follows from the seed and its number alone: `--seed S --only N` repeats it.
"""

import argparse
import collections
import gzip
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ms_crf import CRF, HMM, Tagger, allowed_transitions, check_batch, options, post_decode  # noqa: E402
from ms_crf.models.encoder import pretrained  # noqa: E402
from ms_crf.models.words import vectors  # noqa: E402
from ms_crf.text import readers, stream  # noqa: E402
from ms_crf.text.formats import conversion  # noqa: E402
from ms_crf.text.splitting import splitter_named  # noqa: E402

import numpy as np  # noqa: E402
import safetensors.numpy  # noqa: E402
from mutations import bytes_of, record_of, value_of  # noqa: E402

SECONDS, MEMORY = 60, 4 << 30
SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--epochs', '1']
OURS = (readers.CorpusError, options.OptionError)


SPANS = (
    '{"text": "Ada saw Rome", "label": [[0, 3, "PER"], [8, 12, "LOC"]]}',
    '{"text": "Ada saw", "spans": [{"start": 0, "end": 3, "label": "X"}], "tokens": [{"start": 0, "end": 3}]}',
    '{"data": {"text": "Ada"}, "annotations": [{"result": [{"value": {"start": 0, "end": 3, "labels": ["X"]}}]}]}',
    '["Ada", {"entities": [[0, 3, "X"]]}]',
)
ANN = b'T1\tPER 0 3\tAda\nR1\tsees Arg1:T1\nT2\tLOC 8 11;12 16\tNew York\n'
CONLLU = (
    b'# newdoc\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n1\ta\t_\tADP\t_\t_\t_\t_\t_\t_\n'
    b'2\tel\t_\tDET\t_\t_\t_\t_\t_\tNER=B-X\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n'
)


class Failure(Exception):
    """A case that ended badly."""


def _encoder():
    """The files of a tiny pretrained encoder, by name."""
    config = {
        'model_type': 'bert', 'vocab_size': 14, 'hidden_size': 4, 'num_hidden_layers': 1, 'num_attention_heads': 2,
        'intermediate_size': 8, 'max_position_embeddings': 16, 'type_vocab_size': 2, 'hidden_act': 'gelu',
        'layer_norm_eps': 1e-12}
    layer = 'encoder.layer.0.'
    shapes = {'embeddings.word_embeddings.weight': (14, 4), 'embeddings.position_embeddings.weight': (16, 4),
              'embeddings.token_type_embeddings.weight': (2, 4)}
    dense = {f'{layer}attention.self.{name}': (4, 4) for name in ('query', 'key', 'value')}
    dense.update({f'{layer}attention.output.dense': (4, 4), f'{layer}intermediate.dense': (8, 4),
                  f'{layer}output.dense': (4, 8)})
    for name in ('embeddings.LayerNorm', f'{layer}attention.output.LayerNorm', f'{layer}output.LayerNorm'):
        shapes.update({f'{name}.weight': (4,), f'{name}.bias': (4,)})
    for name, shape in dense.items():
        shapes.update({f'{name}.weight': shape, f'{name}.bias': shape[:1]})
    tensors = safetensors.numpy.save({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    pieces = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', *'abcdefgh', '##a', '##b']
    return {'config.json': json.dumps(config).encode(), 'model.safetensors': tensors,
            'vocab.txt': '\n'.join(pieces).encode()}


class Fuzz:
    """Material, made once, and the cases made of it.

    Args:
        folder: to work in.
    """

    def __init__(self, folder):
        self.folder = folder
        self.columns = (ROOT / 'data' / 'dev.tsv').read_bytes()[:3000]
        sentences = list(readers.read_columns(ROOT / 'data' / 'dev.tsv'))[:60]
        self.json_lines = ''.join(
            json.dumps({'tokens': s.tokens, 'tags': s.tags}) + '\n' for s in sentences[:20]
        ).encode()
        self.words = sorted({token for s in sentences for token in s.tokens})
        self.vectors = ''.join(f'{word} 0.1 -0.2 0.3\n' for word in self.words[:50]).encode()
        self.sentences = [s.tokens for s in sentences[:3]]
        for part, some in (('train', sentences[:30]), ('dev', sentences[30:40]), ('test', sentences[40:50])):
            (folder / f'{part}.tsv').write_text(
                '\n'.join(''.join(f'{token}\t{tag}\n' for token, tag in zip(s.tokens, s.tags)) for s in some),
                encoding='utf-8',
            )
        self.files = [text for part in ('train', 'dev', 'test') for text in (f'--{part}', str(folder / f'{part}.tsv'))]
        self.runs = {'words': folder / 'words', 'hmm': folder / 'hmm'}
        self._made('train.py', *self.files, *SMALL, '--device', 'CPU', '--save', self.runs['words'])
        self._made('train.py', *self.files, '--model', 'hmm', '--save', self.runs['hmm'])
        self.graph = folder / 'graph' / 'model.mindir'
        self.graph.parent.mkdir()
        self._made('-m', 'ms_crf.export', '--run', self.runs['words'], '--output', self.graph)
        self.readers = [
            self.read_columns,
            self.read_json,
            self.read_spans,
            self.convert_files,
            self.read_text,
            self.read_vectors,
            self.read_options,
            self.read_run,
            self.read_hmm,
            self.read_graph,
            self.read_encoder,
            self.call_layer,
            self.call_hmm,
            self.call_tagger,
            self.call_post_decode,
        ]
        self.encoder = _encoder()
        self.tagger = Tagger.load(self.runs['hmm'])

    def _made(self, *arguments):
        subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    def _file(self, name, data):
        path = self.folder / 'case' / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith('.gz'):
            data = gzip.compress(data)
        path.write_bytes(data)
        return str(path)

    # Readers

    def read_columns(self, rng):
        name = rng.choice(['a.tsv', 'a.conllu', 'a.txt', 'a.tsv.gz'])
        columns = rng.choice([(0, -1), (1, 0), (-1, 0), (0, 5), (0, 1)])
        readers.read_corpus(self._file(name, bytes_of(rng, self.columns)), columns)

    def read_json(self, rng):
        lines = self.json_lines.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = record_of(rng, json.loads(lines[at]))
        data = b'\n'.join(lines)
        path = self._file('a.jsonl', data if rng.random() < 0.6 else bytes_of(rng, data))
        readers.read_corpus(path)

    def read_spans(self, rng):
        """Texts with spans, as annotation tools write them."""
        records = [json.loads(record) for record in SPANS]
        at = rng.randrange(len(records))
        lines = [json.dumps(record).encode() for record in records]
        lines[at] = record_of(rng, records[at])
        data = rng.choice([b'\n'.join(lines), b'[' + b', '.join(lines) + b']'])
        readers.read_corpus(self._file('a.json', data if rng.random() < 0.6 else bytes_of(rng, data)))

    def convert_files(self, rng):
        """Damaged files of brat, CoNLL-U and columns, from each format to each."""
        self._file('b.txt', b'Ada saw\nNew York' if rng.random() < 0.7 else bytes_of(rng, b'Ada saw\nNew York'))
        name, data = rng.choice([('b.ann', ANN), ('b.conllu', CONLLU), ('b.tsv', self.columns)])
        path = self._file(name, bytes_of(rng, data))
        source = conversion.read(path, conversion.format_in(path), lambda _: None)
        target = conversion.Target(rng.choice(conversion.TO), splitter_named('blanks'))
        conversion.write(source, target, str(self.folder / 'case' / 'o.ann'), lambda _: None)

    def read_text(self, rng):
        kind = rng.choice(stream.FORMATS)
        data = bytes_of(rng, self.json_lines if kind == 'json' else self.columns)
        path = self._file('b', data)
        lines = stream.numbered(stream.open_lines(path), path, rng.random() < 0.3, lambda message: None)
        columns = rng.choice([(0,), (0, -1)]) if kind != 'text' else (0,)
        for _ in stream.read(lines, path, kind, rng.random() < 0.3, columns):
            pass

    def read_vectors(self, rng):
        data = bytes_of(rng, self.vectors)
        if rng.random() < 0.2:
            data = rng.choice([b'1000000000 300\n', b'3 1000000000\n', b'0 0\n', b'-1 3\n', b'50 2\n']) + data
        vectors.read_vectors(self._file(rng.choice(['v.txt', 'v.gz']), data), self.words)

    def read_options(self, rng):
        some = rng.sample(sorted(options.Options().to_json().items()), 3)
        path = self._file('options.json', record_of(rng, {'train': 'a', 'dev': 'b', 'hidden': 6, **dict(some)}))
        from ms_crf.train import new_options, read_options

        new_options(*read_options(['--config', path]))

    def _damaged_run(self, rng, kind):
        """A copy of a run with one file damaged; half of them without checksums, as an earlier version wrote them."""
        copy = self.folder / 'case' / 'run'
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.runs[kind], copy)
        if rng.random() < 0.6:
            (copy / 'checksums.json').unlink(missing_ok=True)
        path = rng.choice(sorted(path for path in copy.iterdir() if path.is_file()))
        self._damage(rng, path)
        return copy

    @staticmethod
    def _damage(rng, path):
        if path.suffix == '.json' and rng.random() < 0.7:
            with open(path, encoding='utf-8') as file:
                record = json.load(file)
            path.write_bytes(record_of(rng, record))
        elif rng.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(bytes_of(rng, path.read_bytes()))

    def read_run(self, rng):
        Tagger.load(self._damaged_run(rng, 'words'))

    def read_hmm(self, rng):
        Tagger.load(self._damaged_run(rng, 'hmm')).tag(self.sentences)

    def read_graph(self, rng):
        copy = self.folder / 'case' / 'graph'
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.graph.parent, copy)
        path = copy / rng.choice(['model.json', 'model.json', 'model.json', 'model.mindir'])
        self._damage(rng, path)
        Tagger.load(copy / 'model.mindir')

    def read_encoder(self, rng):
        folder = self.folder / 'case' / 'encoder'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        damaged = rng.choice([*self.encoder, None])
        for name, data in self.encoder.items():
            if name == damaged:
                data = record_of(rng, json.loads(data)) if name == 'config.json' else bytes_of(rng, data)
            (folder / name).write_bytes(data)
        pretrained.EncoderFiles(folder).weights()

    # Functions: what a program hands to them by mistake

    def call_layer(self, rng):
        kind = rng.randrange(4)
        if kind == 0:
            CRF(
                value_of(rng),
                rng.choice([True, False, value_of(rng)]),
                rng.choice(['sum', 'mean', value_of(rng)]),
                rng.choice([None, value_of(rng)]),
            )
        elif kind == 1:
            allowed_transitions(
                rng.choice(['BIO', 'BMES', value_of(rng)]), rng.choice([['O', 'B', 'I'], value_of(rng)])
            )
        elif kind == 2:
            check_batch(
                rng.choice([[[0, 1], [1, 2]], value_of(rng)]),
                rng.choice([None, [2, 1], value_of(rng)]),
                rng.choice([3, value_of(rng)]),
                rng.choice([True, False]),
            )
        else:
            allowed_transitions('BIO', [value_of(rng) for _ in range(3)])

    def call_hmm(self, rng):
        model = HMM([0.5, 0.5], [[0.5, 0.5], [0.1, 0.9]], [[0.2, 0.8], [0.7, 0.3]])
        kind = rng.randrange(5)
        if kind == 0:
            HMM(
                *(
                    rng.choice([given, value_of(rng)])
                    for given in ([0.5, 0.5], [[0.5, 0.5], [0.1, 0.9]], [[1.0], [1.0]])
                )
            )
        elif kind == 1:
            getattr(model, rng.choice(['log_likelihood', 'posteriors', 'viterbi', 'log_prob', 'forward']))(
                rng.choice([value_of(rng), [0, value_of(rng)], [[0, 1], value_of(rng)], [[0], [value_of(rng)]]])
            )
        elif kind == 2:
            HMM().fit(
                rng.choice([[['a', 'b']], value_of(rng)]),
                rng.choice([[['X', 'Y']], value_of(rng)]),
                rng.choice([0.1, value_of(rng)]),
            )
        elif kind == 3:
            HMM().baum_welch(
                rng.choice([[0, 1, 1, 0], value_of(rng)]), rng.choice([2, value_of(rng)]), steps=2, starts=1
            )
        else:
            model.sample(rng.choice([3, 0, -1, None, 'a', 2.5, True]), rng.choice([0, -1, None, 'a']))

    def call_tagger(self, rng):
        sentences = rng.choice([[['a', value_of(rng)]], [value_of(rng)], value_of(rng), [['a'], value_of(rng)]])
        self.tagger.tag(sentences, rng.choice([None, True, False]), rng.choice([0, 0, value_of(rng)]))

    def call_post_decode(self, rng):
        score, history, lengths = np.zeros((2, 3)), np.zeros((4, 2, 3), np.int64), np.array([5, 2])
        given = [score, history, lengths]
        given[rng.randrange(3)] = rng.choice(
            [value_of(rng), np.full((2, 3), 7), np.array([6, -1]), np.zeros((0, 2, 3))]
        )
        post_decode(*given)

    def reader(self, seed, number):
        """One case in process; raises Failure."""
        rng = random.Random(f'{seed} {number}')
        read = rng.choice(self.readers)
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

    # Commands

    def arguments(self, rng):
        """The words of a command, one of its files damaged."""
        kind = rng.randrange(6)
        output = ['--output', str(self.folder / 'case' / 'out')] if rng.random() < 0.5 else []
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
            data = rng.choice([self.columns, self.json_lines])
            path = self._file(rng.choice(['i.tsv', 'i.jsonl', 'i.txt', 'i.conllu', 'i.gz']), bytes_of(rng, data))
            return ['infer.py', '--run', self.runs['hmm'], '--input', path, *extra, *output]
        if kind == 1:
            return [
                'infer.py',
                '--run',
                self._damaged_run(rng, rng.choice(['hmm', 'words'])),
                '--text',
                'a b c',
                *extra,
            ]
        if kind == 2:
            files = list(self.files)
            at = 1 + 2 * rng.randrange(3)
            files[at] = self._file(rng.choice(['t.tsv', 't.jsonl']), bytes_of(rng, Path(files[at]).read_bytes()))
            return ['train.py', *files, '--model', 'hmm', '--save', self.folder / 'case' / 'new', '--overwrite']
        if kind == 3:
            path = self._file(
                'o.json', record_of(rng, {'hidden': 6, 'word_dim': 4, 'epochs': 1, 'layers': 1, 'average': 0.5})
            )
            return [
                'train.py',
                *self.files,
                '--config',
                path,
                '--save',
                self.folder / 'case' / 'new2',
                '--overwrite',
                '--device',
                'CPU',
            ]
        if kind == 4:
            return [
                '-m',
                'ms_crf.export',
                '--run',
                self._damaged_run(rng, 'words'),
                '--output',
                self.folder / 'case' / 'g.mindir',
                *rng.choice([[], ['--static', '2', '5'], ['--static', '0', '10000000000']]),
            ]
        return ['train.py', '--resume', self._damaged_run(rng, 'words'), *rng.choice([[], ['--epochs', '2']])]

    def command(self, seed, number):
        """One command as a process; raises Failure."""
        rng = random.Random(f'{seed} command {number}')
        (self.folder / 'case').mkdir(exist_ok=True)
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


def keep(fuzz, folder, name, error):
    """Puts a failing case away: its message, and its files."""
    place = Path(folder) / name
    place.mkdir(parents=True, exist_ok=True)
    (place / 'message.txt').write_text(str(error), encoding='utf-8', errors='backslashreplace')
    if (fuzz.folder / 'case').exists():
        shutil.copytree(fuzz.folder / 'case', place / 'files', dirs_exist_ok=True)


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
        fuzz = Fuzz(Path(folder))
        # Readers come into this process's memory: what is far too much fails here.
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf('SC_PAGE_SIZE') + MEMORY,) * 2)
        chosen = parsed.only is not None or parsed.only_command is not None
        for name, work, only, most in (
            ('command', fuzz.command, parsed.only_command, parsed.commands),
            ('case', fuzz.reader, parsed.only, parsed.cases),
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
                    keep(fuzz, parsed.keep, f'{seed}-{name}-{number}', error)
                shutil.rmtree(fuzz.folder / 'case', ignore_errors=True)
            print(f'{done} {name}s', flush=True)
    for (name, result), count in sorted(counts.items()):
        print(f'{name:<20}{result:<10}{count:>8}')
    print(f'{failures} failures' + (f', kept in {parsed.keep}' if failures else ''))
    return 1 if failures else 0


if __name__ == '__main__':
    sys.exit(main())
