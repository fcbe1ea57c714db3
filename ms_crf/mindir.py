"""A trained network as a MindIR graph: written with what a program needs to run it, and run from these two files."""

import contextlib
import hashlib
import os
import sys
from pathlib import Path

from ms_crf import run_folder
from ms_crf.assembly import load_network
from ms_crf.backtrace import post_decode
from ms_crf.batches import PADDING, Encoded
from ms_crf.corpus import CorpusError
from ms_crf.options import OptionError
from ms_crf.served import Served, ServedWithoutCharacters
from ms_crf.spans import SCHEMES
from ms_crf.tasks import CONFIDENCES, EMISSIONS, PATHS
from ms_crf.vocabulary import FIRST, UNKNOWN, Vocabulary

import mindspore as ms
import numpy as np
from mindspore import nn

FORMAT = 1
ROWS, TOKENS = 512, 16384      # of a batch at most, where the graph takes any number


def inputs_of(with_characters, characters, static=None):
    """Names and shapes of the graph's inputs, all int32; None is an axis of any size.

    Args:
        with_characters: whether the network reads characters.
        characters: how many of a word.
        static: (batch, length), or None for any.
    """
    batch, length = static or (None, None)
    words = batch * length if static else None
    inputs = {'words': (words,), 'spellings': (words, characters), 'places': (batch, length), 'lengths': (batch,)}
    if not with_characters:
        del inputs['spellings']
    return inputs


def outputs_of(output, num_tags, static=None):
    """Names, types and shapes of the graph's outputs."""
    batch, length = static or (None, None)
    before = length - 1 if static else None
    paths = {'paths': ('int32', (batch, length)), 'scores': ('float32', (batch,))}
    return {
        PATHS: paths,
        CONFIDENCES: {**paths, 'posteriors': ('float32', (batch, length)),
                      'given_before': ('float32', (batch, length, num_tags))},
        EMISSIONS: {'score': ('float32', (batch, num_tags)), 'history': ('int64', (before, batch, num_tags))},
    }[output]


def _placeholders(inputs):
    return [ms.Tensor(np.zeros(shape, np.int32)) if None not in shape else ms.Tensor(shape=list(shape), dtype=ms.int32)
            for shape in inputs.values()]


def export(folder, path, output=PATHS, static=None):
    """Writes the graph of a run, and a record of the same name that ends in .json.

    Args:
        folder: the run directory.
        path: of the graph; ends in .mindir.
        output: 'paths', 'confidences' or 'emissions'; see `Served`.
        static: (batch, length) for a graph of these alone, or None for any.
    """
    config = run_folder.read_config(folder)
    if config['model'] != 'bilstm':
        raise CorpusError(folder, None, f'expected a run of --model bilstm, got {config["model"]}, which is no graph')
    options = run_folder.read_options(folder, config)
    vocabulary = run_folder.read_vocabulary(folder)
    if output == EMISSIONS and options.head != 'crf':
        raise OptionError('--emissions needs a run with --head crf, got softmax: there is nothing to trace back')
    network = load_network(folder, options, vocabulary, config['word_dim'], config['scheme'])
    inputs = inputs_of(network.with_characters, vocabulary.char_length, static)
    cell = (Served if network.with_characters else ServedWithoutCharacters)(network, output)
    path = Path(path)
    draft = path.with_name(f'.{os.getpid()}.{path.name}')
    try:
        ms.export(cell, *_placeholders(inputs), file_name=str(draft), file_format='MINDIR')
        draft.chmod(0o644)
        outputs = outputs_of(output, len(vocabulary.tags), static)
        record = {
            'format': FORMAT, 'graph': path.name, 'sha256': _checksum(draft), 'output': output, 'static': static,
            'inputs': [{'name': name, 'type': 'int32', 'shape': shape} for name, shape in inputs.items()],
            'outputs': [{'name': name, 'type': kind, 'shape': shape} for name, (kind, shape) in outputs.items()],
            'scheme': config['scheme'], 'found_scheme': config['found_scheme'],
            'padding_id': PADDING, 'unknown_id': UNKNOWN, 'first_id': FIRST, **vocabulary.to_json()}
        os.replace(draft, path)
        run_folder.write_json(record_of(path), record)
    except OSError as error:
        raise CorpusError(path, None, f'can not be written: {error.strerror}') from None
    finally:
        draft.unlink(missing_ok=True)


def record_of(path):
    """Name of the record beside a graph."""
    return Path(path).with_suffix('.json')


@contextlib.contextmanager
def _without_standard_error():
    """Keeps MindSpore from logging what it raises; its loader does so from C++."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _checksum(path):
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        for block in iter(lambda: file.read(1 << 20), b''):
            digest.update(block)
    return digest.hexdigest()


def _read_record(path):
    """The record of a graph, its vocabulary and its inputs; raises CorpusError if anything of it is wrong."""
    name = record_of(path)
    record = run_folder.read_json(name)
    if not isinstance(record, dict) or record.get('format') != FORMAT:
        raise CorpusError(name, None, f'expected "format": {FORMAT} as ms_crf.export of this version writes it; '
                                      'export again')
    try:
        vocabulary = Vocabulary.from_json({key: record.get(key)
                                           for key in ('words', 'characters', 'tags', 'char_length')})
    except ValueError as error:
        raise CorpusError(name, None, str(error)) from None
    for key, values in (('scheme', SCHEMES), ('found_scheme', SCHEMES), ('output', (PATHS, CONFIDENCES, EMISSIONS))):
        if record.get(key) not in values:
            raise CorpusError(name, None, f'expected "{key}" to be one of {", ".join(values)}, '
                                          f'got {record.get(key)!r}')
    static = record.get('static')
    if static is not None and not (isinstance(static, list) and len(static) == 2
                                   and all(isinstance(size, int) and size > 0 for size in static)):
        raise CorpusError(name, None, f'expected "static" to be batch and length or null, got {static!r}')
    given = record.get('inputs')
    names = [entry.get('name') if isinstance(entry, dict) else None
             for entry in given] if isinstance(given, list) else None
    inputs = inputs_of(names is not None and 'spellings' in names, vocabulary.char_length, static)
    if names != list(inputs):
        raise CorpusError(name, None, f'expected "inputs" to be {", ".join(inputs)}, got {names}')
    if not Path(path).is_file():
        raise CorpusError(path, None, 'no such file; expected a graph made by ms_crf.export')
    if _checksum(path) != record.get('sha256'):
        raise CorpusError(path, None, f'expected the graph that {name} was written with, got another or a damaged one; '
                                      'copy both files again, or export again')
    return record, vocabulary, inputs


class MindIRDecoder:
    """Tags encoded sentences with an exported graph, as `Decoder` does with a network.

    Args:
        graph: takes tensors, in the order of the inputs.
        vocabulary: `Vocabulary` of its record.
        output: 'paths', 'confidences' or 'emissions'.
        inputs: their names and shapes.
    """

    def __init__(self, graph, vocabulary, output, inputs):
        self.graph, self.vocabulary, self.output, self.inputs = graph, vocabulary, output, inputs
        self.tasks = frozenset((PATHS, CONFIDENCES) if output == CONFIDENCES else (PATHS,))

    @classmethod
    def load(cls, path):
        """(decoder, scheme, found_scheme) from a graph and its record."""
        record, vocabulary, inputs = _read_record(path)
        try:
            with _without_standard_error():
                graph = nn.GraphCell(ms.load(str(path)))
        except (RuntimeError, ValueError, TypeError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise CorpusError(path, None, f'expected a MindIR graph that MindSpore can load: {first}') from None
        if record['static'] is None:
            graph.set_inputs(*_placeholders(inputs))
        return cls(graph, vocabulary, record['output'], inputs), record['scheme'], record['found_scheme']

    def encode(self, sentences):
        """As `Decoder.encode`."""
        return Encoded(sentences, self.vocabulary)

    def run(self, encoded, task=PATHS, count=1):
        """As `Decoder.run`, for 'paths' and, if the graph gives them, 'confidences'."""
        for numbers in self._batches(encoded.lengths):
            lengths = encoded.lengths[numbers]
            arrays = [tensor.asnumpy() for tensor in self.graph(*self._tensors(encoded, numbers))]
            if self.output == EMISSIONS:
                score, history = arrays
                paths = post_decode(score[:len(numbers)], history[:, :len(numbers)], lengths)
                padded = np.zeros((len(numbers), lengths.max()), np.int32)
                padded[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(paths)
                arrays = [padded, score[:len(numbers)].max(1)]
            yield numbers, arrays if task == CONFIDENCES else arrays[:2]

    def _batches(self, lengths):
        """Numbers of sentences of similar lengths."""
        rows, longest = self.inputs['places']
        if rows is not None and lengths.max() > longest:
            raise OptionError(f'the graph takes sentences of up to {longest} tokens, got one of {lengths.max()}; '
                              'export one without --static, or with a greater length')
        order, batch = np.argsort(lengths, kind='stable'), []
        for number in order:
            # The next is at least as long as all before it.
            too_many = rows is None and lengths[number] * (len(batch) + 1) > TOKENS
            if batch and (too_many or len(batch) == (rows or ROWS)):
                yield np.array(batch)
                batch = []
            batch.append(number)
        yield np.array(batch)

    def _tensors(self, encoded, numbers):
        forms, flat = np.unique(np.concatenate([encoded.tokens[number] for number in numbers]), return_inverse=True)
        rows, length = self.inputs['places']
        words, = self.inputs['words']
        lengths = np.zeros(rows or len(numbers), np.int32)
        lengths[:len(numbers)] = encoded.lengths[numbers]
        length, words = length or lengths.max(), words or len(forms)
        arrays = {'words': np.full(words, PADDING, np.int32), 'places': np.zeros((len(lengths), length), np.int32),
                  'spellings': np.full((words, encoded.spelling_of.shape[1]), PADDING, np.int32), 'lengths': lengths}
        arrays['words'][:len(forms)] = encoded.word_of[forms]
        arrays['spellings'][:len(forms)] = encoded.spelling_of[forms]
        arrays['places'][np.arange(length) < lengths[:, None]] = flat
        return [ms.Tensor(arrays[name]) for name in self.inputs]
