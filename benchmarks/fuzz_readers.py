"""Fuzzing of the file readers for benchmarks/fuzz.py: each case reads damaged files in the worker."""

import json
import shutil

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.cli.train import options_of
from ms_crf.formats import registry
from ms_crf.formats.document import ReadOptions
from ms_crf.formats.lines import numbered, open_lines
from ms_crf.models.encoder import pretrained
from ms_crf.models.words import vectors
from ms_crf.runs import options
from ms_crf.text.splitting import AUTO, Deferred

from mutations import bytes_of, record_of


class Readers:
    """Cases of readers.

    Args:
        material: the source of the files.
    """

    refusals = CorpusError, OptionError

    def __init__(self, material):
        self.material = material
        self.cases = [self.read_columns, self.read_json, self.read_text, self.read_vectors, self.read_options,
                      self.read_run, self.read_hmm, self.read_graph, self.read_encoder]

    def read_columns(self, rng):
        name = rng.choice(['a.tsv', 'a.conllu', 'a.txt', 'a.tsv.gz'])
        columns = rng.choice([(0, -1), (1, 0), (-1, 0), (0, 5), (0, 1)])
        registry.read_corpus(self.material.file(name, bytes_of(rng, self.material.columns)), columns)

    def read_json(self, rng):
        lines = self.material.json_lines.splitlines()
        at = rng.randrange(len(lines))
        lines[at] = record_of(rng, json.loads(lines[at]))
        data = b'\n'.join(lines)
        path = self.material.file('a.jsonl', data if rng.random() < 0.6 else bytes_of(rng, data))
        registry.read_corpus(path)

    def read_text(self, rng):
        kind = rng.choice(registry.STREAMS)
        data = bytes_of(rng, self.material.json_lines if kind == 'json' else self.material.columns)
        path = self.material.file('b', data)
        lines = numbered(open_lines(path), path, rng.random() < 0.3, lambda message: None)
        columns = rng.choice([(0,), (0, -1)]) if kind != 'text' else (0,)
        options = ReadOptions(registry.columns_of(path, columns), splitter=Deferred(AUTO),
                              characters=rng.random() < 0.3)
        for _ in registry.of_stream(path, kind).sentences(lines, path, options):
            pass

    def read_vectors(self, rng):
        data = bytes_of(rng, self.material.vectors)
        if rng.random() < 0.2:
            data = rng.choice([b'1000000000 300\n', b'3 1000000000\n', b'0 0\n', b'-1 3\n', b'50 2\n']) + data
        vectors.read_vectors(self.material.file(rng.choice(['v.txt', 'v.gz']), data), self.material.words)

    def read_options(self, rng):
        some = rng.sample(sorted(options.Options().to_json().items()), 3)
        path = self.material.file('options.json', record_of(rng, {'train': 'a', 'dev': 'b', 'hidden': 6, **dict(some)}))
        options_of(['--config', path])

    def read_run(self, rng):
        Tagger.load(self.material.damaged_run(rng, 'words'))

    def read_hmm(self, rng):
        Tagger.load(self.material.damaged_run(rng, 'hmm')).tag(self.material.sentences)

    def read_graph(self, rng):
        copy = self.material.case / 'graph'
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.material.graph.parent, copy)
        path = copy / rng.choice(['model.json', 'model.json', 'model.json', 'model.mindir'])
        self.material.damage(rng, path)
        Tagger.load(copy / 'model.mindir')

    def read_encoder(self, rng):
        folder = self.material.case / 'encoder'
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        damaged = rng.choice([*self.material.encoder, None])
        for name, data in self.material.encoder.items():
            if name == damaged:
                data = record_of(rng, json.loads(data)) if name == 'config.json' else bytes_of(rng, data)
            (folder / name).write_bytes(data)
        pretrained.EncoderFiles(folder).weights()
