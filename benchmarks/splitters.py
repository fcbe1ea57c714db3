"""Scores splitters of raw text on the English Web Treebank: python benchmarks/splitters.py --input dev.jsonl

Each input line is an object with "text", "tokens" and "sentences"; tokens and sentences are [start, end) in characters.
A token or sentence is correct if both ends are correct. Splitters that are not installed are skipped. Install all with:
pip install spacy syntok segtok nltk pysbd uniseg blingfire tokenizers. NLTK uses Punkt without a trained model.
"""

import argparse
import json
import statistics
import sys
import time
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ms_crf.base.errors import OptionError  # noqa: E402
from ms_crf.text.splitting import splitter_named  # noqa: E402


def places(text, tokens, begin=0):
    """Returns the offsets of tokens that a library returns as strings; changed tokens are skipped."""
    found = []
    for token in tokens:
        start = text.find(token, begin)
        if start >= 0:
            found.append((start, start + len(token)))
            begin = start + len(token)
    return found


def stripped(text, begin, end):
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), begin + len(part.rstrip())


def ours(name):
    splitter = splitter_named(name)

    def split(text):
        found = splitter.split(text)
        return ([token for sentence in found for token in sentence.offsets],
                [(sentence.start, sentence.end) for sentence in found])
    return split


def spacy_alone():
    import spacy
    library = spacy.blank('en')
    library.add_pipe('sentencizer')

    def split(text):
        document = library(text)
        return ([(token.idx, token.idx + len(token)) for token in document if not token.is_space],
                [(sentence.start_char, sentence.end_char) for sentence in document.sents])
    return split


def syntok():
    from syntok import segmenter
    from syntok.tokenizer import Tokenizer
    tokenizer = Tokenizer(emit_hyphen_or_underscore_sep=True, replace_not_contraction=False)

    def split(text):
        found = [[(token.offset, token.offset + len(token.value)) for token in sentence]
                 for sentence in segmenter.split(tokenizer.tokenize(text))]
        return [token for sentence in found for token in sentence], [(one[0][0], one[-1][1]) for one in found if one]
    return split


def segtok():
    from segtok.segmenter import split_multi
    from segtok.tokenizer import split_contractions, web_tokenizer

    def split(text):
        tokens, sentences, begin = [], [], 0
        for sentence in split_multi(text):
            found = places(text, split_contractions(web_tokenizer(sentence)), begin)
            if found:
                tokens += found
                sentences.append((found[0][0], found[-1][1]))
                begin = found[-1][1]
        return tokens, sentences
    return split


def nltk():
    from nltk.tokenize import NLTKWordTokenizer, PunktSentenceTokenizer
    words, sentences = NLTKWordTokenizer(), PunktSentenceTokenizer()

    def split(text):
        found = list(sentences.span_tokenize(text))
        tokens = []
        for begin, end in found:
            try:
                tokens += [(begin + start, begin + stop) for start, stop in words.span_tokenize(text[begin:end])]
            except ValueError:                   # NLTK cannot find the offsets of quotation marks that it changed
                continue
        return tokens, found
    return split


def pysbd():
    from pysbd import Segmenter
    segmenter = Segmenter('en', char_span=True)
    return lambda text: ([], [stripped(text, part.start, part.end) for part in segmenter.segment(text)])


def uniseg():
    from uniseg import sentencebreak, wordbreak

    def split(text):
        tokens, sentences = [], []
        for parts, found in ((wordbreak.words(text), tokens), (sentencebreak.sentences(text), sentences)):
            begin = 0
            for part in parts:
                if part.strip():
                    found.append(stripped(text, begin, begin + len(part)))
                begin += len(part)
        return tokens, sentences
    return split


def blingfire():
    import blingfire as library
    return lambda text: (library.text_to_words_with_offsets(text)[1], library.text_to_sentences_and_offsets(text)[1])


def tokenizers():
    from tokenizers.pre_tokenizers import BertPreTokenizer
    tokenizer = BertPreTokenizer()
    return lambda text: ([place for _, place in tokenizer.pre_tokenize_str(text)], [])


SPLITTERS = {'spacy-en of ms_crf': ('spacy', lambda: ours('spacy-en')),
             'blanks of ms_crf': (None, lambda: ours('blanks')),
             'spaCy, blank English': ('spacy', spacy_alone), 'syntok': ('syntok', syntok), 'segtok': ('segtok', segtok),
             'NLTK': ('nltk', nltk), 'pySBD': ('pysbd', pysbd), 'uniseg (Unicode segmentation)': ('uniseg', uniseg),
             'BlingFire': ('blingfire', blingfire), 'tokenizers, as for BERT': ('tokenizers', tokenizers)}


def f1(gold, found):
    correct = sum(len(set(one) & set(other)) for one, other in zip(gold, found))
    return 200 * correct / (sum(map(len, gold)) + sum(map(len, found)))


def about(package):
    """Version, licence and size in MB of an installed package."""
    if package is None:
        return '–', '–', '–'
    there = metadata.metadata(package)
    licence = there.get('License-Expression') or there.get('License') or ''
    classified = [line.rsplit(' :: ', 1)[1] for line in there.get_all('Classifier') or ()
                  if line.startswith('License ::')]
    licence = licence if 0 < len(licence) < 30 else ', '.join(classified) or 'not said'
    size = sum(path.stat().st_size for file in metadata.files(package) or () if (path := Path(file.locate())).is_file())
    return there['Version'], licence, f'{size / 1e6:.1f}'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--input', required=True)
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    records = [json.loads(line) for line in Path(arguments.input).read_text(encoding='utf-8').splitlines()]
    texts = [record['text'] for record in records]
    gold = [[list(map(tuple, record[key])) for record in records] for key in ('tokens', 'sentences')]
    characters = sum(map(len, texts))
    print('| splitter | version | licence | MB | tokens F1 | sentences F1 | characters/s |')
    print('|---|---|---|---|---|---|---|')
    for name, (package, make) in SPLITTERS.items():
        try:
            split, seconds = make(), []
        except (ImportError, OptionError):
            print(f'{name} is not installed', file=sys.stderr)
            continue
        for _ in range(arguments.rounds):
            began = time.perf_counter()
            found = [split(text) for text in texts]
            seconds.append(time.perf_counter() - began)
        scores = [f'{f1(right, [one[part] for one in found]):.2f}' if any(one[part] for one in found) else '–'
                  for part, right in enumerate(gold)]
        print(f'| {name} | {" | ".join(about(package))} | {" | ".join(scores)} '
              f'| {characters / statistics.median(seconds):,.0f} |', flush=True)


if __name__ == '__main__':
    main()
