"""Tags text with an exported graph, using only MindSpore and the record next to the graph.

    python plain_mindir.py model.mindir < text.txt

Each input line is a sentence with spaces between its words. Each output line has its words and tags as word/tag, or as
word/tag/confidence for a graph that was exported with --confidence. The tags are the tags that `ms-crf infer` writes.
The graph must come from a run with word inputs. The program does not need the package ms_crf, so you can copy it.
The program does not check the graph. An operator in a graph can run any program: use graphs from people you trust.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault('GLOG_v', '3')                             # silences the log; must be set before the import

import mindspore as ms
import numpy as np

BATCH = 32                                                       # sentences


def load(path):
    """Returns (record, graph). The record has the name of the graph with the ending .json."""
    record = json.loads(Path(path).with_suffix('.json').read_text(encoding='utf-8'))
    if 'tokenizer' in record or record['output'] == 'emissions' or record['static'] is not None:
        sys.exit(f'{path}: expected a graph of a run over words, for any shape, that gives paths; export it without '
                 '--encoder, --emissions and --static')
    if record.get('written_scheme') not in (None, record['scheme'], 'BIO'):
        sys.exit(f'{path}: expected tags to be written in BIO or in the scheme of the graph, {record["scheme"]}, got '
                 f'{record["written_scheme"]}; add the conversion to this program')
    graph = ms.nn.GraphCell(ms.load(str(path)))
    if record.get('set_inputs', True):                           # earlier records do not have this key
        # Declares dynamic shapes (null in the record) before the first call. Without this, the second shape fails with
        # "The actor already exists".
        graph.set_inputs(*(ms.Tensor(shape=entry['shape'], dtype=getattr(ms, entry['type']))
                           for entry in record['inputs']))
    return record, graph


class Ids:
    """Looks up ids of words, pairs of words, characters and n-grams, in the order of the record."""

    def __init__(self, record):
        first = record['first_id']
        self.words = {word: number for number, word in enumerate(record['words'], first)}
        self.characters = {letter: number for number, letter in enumerate(record['characters'], first)}
        # Pairs of neighbouring words (--bigrams), empty without. `no_pair` is the id of all unknown pairs.
        self.no_pair = first + len(record['words'])
        self.pairs = {pair: number for number, pair in enumerate(record.get('bigrams', []), self.no_pair + 1)}
        # N-grams of out-of-vocabulary words (--ngrams), empty without. 0 is padding.
        self.ngram_ids = {ngram: number for number, ngram in enumerate(record.get('ngrams', []), 1)}
        self.max_ngrams = next((entry['shape'][1] for entry in record['inputs'] if entry['name'] == 'ngrams'), 0)
        self.unknown, self.padding, self.width = record['unknown_id'], record['padding_id'], record['char_length']

    def word(self, word):
        """The id of a word: looked up unchanged, in lower case, and in lower case with digits replaced by 0."""
        lower = word.lower()
        forms = (word, lower, ''.join('0' if letter.isdigit() else letter for letter in lower))
        return next((self.words[form] for form in forms if form in self.words), self.unknown)

    def word_between(self, word, before, after):
        """The ids of a word, of its pair with the previous word, and of its pair with the next word; '' for no word."""
        pairs = f'{before} {word}', f'{word} {after}'
        return [self.word(word), *(self.pairs.get(pair, self.no_pair) for pair in pairs)]

    def ngrams(self, word):
        """The ids of the known n-grams of <word>, with 3 to 5 characters each, padded with 0.

        N-grams are sorted by their first position, shorter n-grams first. Only the first `max_ngrams` are looked up.
        """
        marked = f'<{word.lower()[:self.max_ngrams]}>'
        ngrams = dict.fromkeys(marked[start:start + size] for start in range(len(marked)) for size in (3, 4, 5)
                               if start + size <= len(marked))
        ids = [self.ngram_ids[ngram] for ngram in list(ngrams)[:self.max_ngrams] if ngram in self.ngram_ids]
        return ids + [0] * (self.max_ngrams - len(ids))

    def spelling(self, word):
        """The ids of the characters, padded at the end; of a long word the first and the last half."""
        if len(word) > self.width:
            head = (self.width + 1) // 2
            word = word[:head] + word[len(word) - (self.width - head):]
        ids = [self.characters.get(letter, self.unknown) for letter in word]
        return ids + [self.padding] * (self.width - len(ids))


def in_bio(tags):
    """Converts tags to BIO. A span begins at B and S, after O, E and S, and where the type changes."""
    converted, last, last_kind = [], 'O', ''
    for name in tags:
        prefix, _, kind = name.partition('-')
        begins = prefix in ('B', 'S') or last in ('O', 'E', 'S') or kind != last_kind
        converted.append(name if prefix == 'O' else ('B' if begins else 'I') + name[1:])
        last, last_kind = prefix, kind
    return converted


def tag(graph, record, ids, sentences):
    """Tags sentences, lists of at least one word. Returns (tags, confidences or None) for each sentence."""
    if ids.pairs:
        sentences = [list(zip(words, ['', *words], [*words[1:], ''])) for words in sentences]
    distinct = list(dict.fromkeys(word for words in sentences for word in words))
    index_of = {word: number for number, word in enumerate(distinct)}
    lengths = [len(words) for words in sentences]
    arrays = {'words': [ids.word_between(*word) if ids.pairs else ids.word(word) for word in distinct],
              'spellings': [ids.spelling(word[0] if ids.pairs else word) for word in distinct],
              'places': np.zeros((len(sentences), max(lengths)), np.int32), 'lengths': lengths}
    if ids.ngram_ids:                                            # at least one row, even without any unknown word
        unknown = [number for number, word in enumerate(distinct)
                   if ids.word(word[0] if ids.pairs else word) == ids.unknown] or [0]
        names = [distinct[number][0] if ids.pairs else distinct[number] for number in unknown]
        arrays['composed'] = unknown
        zeros = [0] * ids.max_ngrams
        arrays['ngrams'] = [ids.ngrams(word) if ids.word(word) == ids.unknown else zeros for word in names]
    for row, words in zip(arrays['places'], sentences):
        row[:len(words)] = [index_of[word] for word in words]
    tensors = graph(*(ms.Tensor(np.asarray(arrays[entry['name']], np.int32)) for entry in record['inputs']))
    outputs = {entry['name']: tensor.asnumpy() for entry, tensor in zip(record['outputs'], tensors)}
    # The tags of the graph are in "scheme", the output is in "written_scheme". Earlier records lack the second key.
    convert = in_bio if record.get('written_scheme') not in (None, record['scheme']) else list
    tags = [convert(record['tags'][number] for number in path[:length])
            for path, length in zip(outputs['paths'], lengths)]
    confidences = [None] * len(tags) if 'posteriors' not in outputs else [
        row[:length] for row, length in zip(outputs['posteriors'], lengths)]
    return list(zip(tags, confidences))


def line_of(words, tags, confidences):
    """A line of output: word/tag or word/tag/confidence for each word, separated by spaces."""
    columns = [words, tags] if confidences is None else [words, tags, [f'{value:.4f}' for value in confidences]]
    return ' '.join(map('/'.join, zip(*columns)))


def main(path):
    record, graph = load(path)
    ids = Ids(record)
    lines = [line.split() for line in sys.stdin]
    sentences = [words for words in lines if words]
    tagged = []
    for first in range(0, len(sentences), BATCH):
        tagged += tag(graph, record, ids, sentences[first:first + BATCH])
    results = iter(tagged)
    for words in lines:
        print(line_of(words, *next(results)) if words else '')


if __name__ == '__main__':
    if len(sys.argv) != 2:
        sys.exit('usage: python plain_mindir.py model.mindir < text.txt')
    main(sys.argv[1])
