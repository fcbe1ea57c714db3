"""Tags text with an exported graph of a run over words, by MindSpore and the record beside the graph alone.

    python plain_mindir.py model.mindir < text.txt

Each input line is a sentence with spaces between its words. Each output line has its words and tags as word/tag, or as
word/tag/confidence for a graph that was exported with --confidence. The tags are the tags that `ms-crf infer` writes.
The program does not need the package ms_crf: use it as a pattern for your own program.
The program does not check the graph: an operator in a graph can run a program, so use graphs from people you trust.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault('GLOG_v', '3')                             # before MindSpore is imported: no log on screen

import mindspore as ms
import numpy as np

BATCH = 32                                                       # sentences


def load(path):
    """(record, graph) from the graph's file and the record of the same name that ends in .json."""
    record = json.loads(Path(path).with_suffix('.json').read_text(encoding='utf-8'))
    if 'tokenizer' in record or record['output'] == 'emissions' or record['static'] is not None:
        sys.exit(f'{path}: expected a graph of a run over words, for any shape, that gives paths; export it without '
                 '--encoder, --emissions and --static')
    if record.get('written_scheme') not in (None, record['scheme'], 'BIO'):
        sys.exit(f'{path}: expected tags to be written in BIO or in the scheme of the graph, {record["scheme"]}, got '
                 f'{record["written_scheme"]}; add the conversion to this program')
    graph = ms.nn.GraphCell(ms.load(str(path)))
    if record.get('set_inputs', True):                           # earlier records don't say it
        # Before the first call, with null for axes of any size. Without it a second shape fails:
        # "The actor already exists".
        graph.set_inputs(*(ms.Tensor(shape=entry['shape'], dtype=getattr(ms, entry['type']))
                           for entry in record['inputs']))
    return record, graph


class Ids:
    """Ids of words and of their characters, as the record lists them."""

    def __init__(self, record):
        first = record['first_id']
        self.words = {word: number for number, word in enumerate(record['words'], first)}
        self.characters = {letter: number for number, letter in enumerate(record['characters'], first)}
        # Pairs of neighbouring words, in a run that knows any; the first id is for all others.
        self.no_pair = first + len(record['words'])
        self.pairs = {pair: number for number, pair in enumerate(record.get('bigrams', []), self.no_pair + 1)}
        # Parts of words, of which words that are not known get vectors, in a run that knows any; 0 is for none.
        self.parts = {part: number for number, part in enumerate(record.get('ngrams', []), 1)}
        self.most = next((entry['shape'][1] for entry in record['inputs'] if entry['name'] == 'ngrams'), 0)
        self.unknown, self.padding, self.width = record['unknown_id'], record['padding_id'], record['char_length']

    def word(self, word):
        """As it is, in lower case, or then with its digits as 0."""
        lower = word.lower()
        forms = (word, lower, ''.join('0' if letter.isdigit() else letter for letter in lower))
        return next((self.words[form] for form in forms if form in self.words), self.unknown)

    def word_between(self, word, before, after):
        """Of a word, and of it with the one before it and the one after it, '' for none."""
        pairs = f'{before} {word}', f'{word} {after}'
        return [self.word(word), *(self.pairs.get(pair, self.no_pair) for pair in pairs)]

    def ngrams(self, word):
        """Parts of 3 to 5 characters, in lower case and between < and >, in order of their beginnings, shorter ones
        first; of as many as the graph takes those that are known."""
        marked = f'<{word.lower()[:self.most]}>'
        parts = dict.fromkeys(marked[start:start + size] for start in range(len(marked)) for size in (3, 4, 5)
                              if start + size <= len(marked))
        ids = [self.parts[part] for part in list(parts)[:self.most] if part in self.parts]
        return ids + [0] * (self.most - len(ids))

    def spelling(self, word):
        """Of a longer word the first and the last half; filled up behind the end."""
        if len(word) > self.width:
            head = (self.width + 1) // 2
            word = word[:head] + word[len(word) - (self.width - head):]
        ids = [self.characters.get(letter, self.unknown) for letter in word]
        return ids + [self.padding] * (self.width - len(ids))


def in_bio(tags):
    """Tags of the same spans in BIO. A span begins at B and S, after O, E and S, and where the type changes."""
    converted, last, last_kind = [], 'O', ''
    for name in tags:
        prefix, _, kind = name.partition('-')
        begins = prefix in ('B', 'S') or last in ('O', 'E', 'S') or kind != last_kind
        converted.append(name if prefix == 'O' else ('B' if begins else 'I') + name[1:])
        last, last_kind = prefix, kind
    return converted


def tag(graph, record, ids, sentences):
    """For each list of words, none of them empty, a list of tags, and a list of confidences or None."""
    if ids.pairs:
        sentences = [list(zip(words, ['', *words], [*words[1:], ''])) for words in sentences]
    distinct = list(dict.fromkeys(word for words in sentences for word in words))
    place = {word: number for number, word in enumerate(distinct)}
    lengths = [len(words) for words in sentences]
    arrays = {'words': [ids.word_between(*word) if ids.pairs else ids.word(word) for word in distinct],
              'spellings': [ids.spelling(word[0] if ids.pairs else word) for word in distinct],
              'places': np.zeros((len(sentences), max(lengths)), np.int32), 'lengths': lengths}
    if ids.parts:                                                # of no word at all there is one row all the same
        others = [number for number, word in enumerate(distinct)
                  if ids.word(word[0] if ids.pairs else word) == ids.unknown] or [0]
        names = [distinct[number][0] if ids.pairs else distinct[number] for number in others]
        arrays['composed'] = others
        arrays['ngrams'] = [ids.ngrams(word) if ids.word(word) == ids.unknown else [0] * ids.most for word in names]
    for row, words in zip(arrays['places'], sentences):
        row[:len(words)] = [place[word] for word in words]
    tensors = graph(*(ms.Tensor(np.asarray(arrays[entry['name']], np.int32)) for entry in record['inputs']))
    outputs = {entry['name']: tensor.asnumpy() for entry, tensor in zip(record['outputs'], tensors)}
    # The graph's tags are in "scheme"; "written_scheme" is the scheme of the output. Earlier records lack it.
    convert = in_bio if record.get('written_scheme') not in (None, record['scheme']) else list
    tags = [convert(record['tags'][number] for number in path[:length])
            for path, length in zip(outputs['paths'], lengths)]
    confidences = [None] * len(tags) if 'posteriors' not in outputs else [
        row[:length] for row, length in zip(outputs['posteriors'], lengths)]
    return list(zip(tags, confidences))


def line_of(words, tags, confidences):
    """word/tag or word/tag/confidence, with spaces between them."""
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
