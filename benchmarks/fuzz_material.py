"""What benchmarks/fuzz.py works on: files, runs, a graph and an encoder, made once, and damaged copies of them."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

from ms_crf import Tagger
from ms_crf.text import readers

import numpy as np
import safetensors.numpy
from mutations import bytes_of, record_of

ROOT = Path(__file__).resolve().parents[1]
SECONDS, MEMORY = 60, 4 << 30
SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--epochs', '1']


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


class Material:
    """Files and models to be damaged.

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
        self.encoder = _encoder()
        self.tagger = Tagger.load(self.runs['hmm'])

    def _made(self, *arguments):
        subprocess.run([sys.executable, *map(str, arguments)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    def file(self, name, data):
        path = self.folder / 'case' / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith('.gz'):
            data = gzip.compress(data)
        path.write_bytes(data)
        return str(path)

    def damaged_run(self, rng, kind):
        """A copy of a run with one file damaged; half of them without checksums, as an earlier version wrote them."""
        copy = self.folder / 'case' / 'run'
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.runs[kind], copy)
        if rng.random() < 0.6:
            (copy / 'checksums.json').unlink(missing_ok=True)
        path = rng.choice(sorted(path for path in copy.iterdir() if path.is_file()))
        self.damage(rng, path)
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
