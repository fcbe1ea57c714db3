"""The inputs of benchmarks/fuzz.py: files, runs, a graph and an encoder, created once, and damaged copies."""

import contextlib
import functools
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

from ms_crf.formats import registry

import numpy as np
import psutil
import safetensors.numpy
from mutations import bytes_of, record_of

ROOT = Path(__file__).resolve().parents[1]
SECONDS, MEMORY = 120, 4 << 30         # limits of a case: time, and memory of each process
SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--epochs', '1']


class Failure(Exception):
    """Raised for a case that breaks a rule."""


def check(fine, message):
    """Raises Failure with this message unless `fine` is true."""
    if not fine:
        raise Failure(message)


def tree_of(pid):
    """A process and its descendants; an empty list if the process has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def end(processes):
    """Kills processes; processes that have ended already are skipped."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def check_memory(pid):
    """Raises Failure if the peak memory of a process or of a descendant exceeds MEMORY."""
    for process in tree_of(pid):
        try:
            status = Path(f'/proc/{process.pid}/status').read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        peak = next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith('VmHWM')), 0)
        check(peak <= MEMORY, f'{peak / 2 ** 30:.1f} GB of memory')


def _encoder():
    """The files of a tiny pretrained encoder, as a dictionary by file name."""
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


class Material:
    """Input files and models, and damaged copies of them.

    Args:
        folder: the working folder; its sibling folder `models` has the result of `train`.

    Attributes:
        case: the folder for the files of a case, which is removed after the case.
    """

    def __init__(self, folder):
        self.folder, self.case, models = folder, folder / 'case', folder.parent / 'models'
        self.columns = (ROOT / 'data' / 'dev.tsv').read_bytes()[:3000]
        self.annotated = registry.read_corpus(ROOT / 'data' / 'dev.tsv')[:60]
        self.json_lines = ''.join(
            json.dumps({'tokens': s.tokens, 'tags': s.tags}) + '\n' for s in self.annotated[:20]).encode()
        self.words = sorted({token for s in self.annotated for token in s.tokens})
        self.vectors = ''.join(f'{word} 0.1 -0.2 0.3\n' for word in self.words[:50]).encode()
        self.sentences = [s.tokens for s in self.annotated[:3]]
        self.files = [text for part in ('train', 'dev', 'test') for text in (f'--{part}', str(models / f'{part}.tsv'))]
        self.runs = {'words': models / 'words', 'hmm': models / 'hmm'}
        self.graph = models / 'graph' / 'model.mindir'
        self.encoder = _encoder()

    def train(self):
        """Trains and exports the models."""
        self.graph.parent.mkdir(parents=True)
        for path, some in zip(self.files[1::2], (self.annotated[:30], self.annotated[30:40], self.annotated[40:50])):
            Path(path).write_text('\n'.join(
                ''.join(f'{token}\t{tag}\n' for token, tag in zip(s.tokens, s.tags)) for s in some), encoding='utf-8')
        for words in (['train.py', *self.files, *SMALL, '--device', 'CPU', '--save', self.runs['words']],
                      ['train.py', *self.files, '--model', 'hmm', '--save', self.runs['hmm']],
                      ['-m', 'ms_crf.export', '--run', self.runs['words'], '--output', self.graph]):
            subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    @functools.cached_property
    def tagger(self):
        from ms_crf import Tagger
        return Tagger.load(self.runs['hmm'])

    def file(self, name, data):
        """Writes a new file of the case with these bytes; returns its name."""
        path = self.case / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith('.gz') else data)
        return str(path)

    def damaged_run(self, rng, kind):
        """Returns a copy of a run with one damaged file; half of the copies have no checksums, like old runs."""
        copy = self.case / 'run'
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.runs[kind], copy)
        if rng.random() < 0.6:
            (copy / 'checksums.json').unlink(missing_ok=True)
        self.damage(rng, rng.choice(sorted(path for path in copy.iterdir() if path.is_file())))
        return copy

    @staticmethod
    def damage(rng, path):
        if path.suffix == '.json' and rng.random() < 0.7:
            with open(path, encoding='utf-8') as file:
                record = json.load(file)
            path.write_bytes(record_of(rng, record))
        elif rng.random() < 0.1:
            path.unlink()
        else:
            path.write_bytes(bytes_of(rng, path.read_bytes()))
