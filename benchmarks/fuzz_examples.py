"""Random annotated texts for benchmarks/fuzz.py, and code that writes them as annotation tools do."""

import json
import re
from typing import NamedTuple

from fuzz_text import hostile

TOKENS = ['Ada', 'saw', 'Rome', 'in', '1843', '.', ',', '"', "'s", '(', ')', 'Łódź', '北京', '😀', 'e\u0301', '_', '-',
          '👩\u200d👧', 'a|b', 'x\\ny', '#tag', '#', '?', 'O', 'B-PER', '1-2', '2.1', 'a=b', '{', '[', '%20', '<b>',
          'New\u00a0York', '\u200b', '\u0301', '=', 'NER=B-X', 'é', 'İstanbul', 'T1', '_:', '\\s', '\\']
TYPES = ['PER', 'LOC', 'A-B', '人', 'x_y', 'O', 'B']
MARKS = ['?', 'XX']
_SURROGATES = re.compile('[\ud800-\udfff]')


class Example(NamedTuple):
    """A text with spans.

    Attributes:
        text: the text of all sentences.
        spans: list of (start, end, type), the end exclusive.
        sentences: for each sentence the (start, end) of its tokens; None if the tokens are not known.
        judged: annotated parts of the text as (start, end), or None if the whole text is annotated.
    """

    text: str
    spans: list
    sentences: list | None = None
    judged: list | None = None


def clean(rng):
    """Returns an example that every format can store.

    Tokens are separated by spaces and line feeds. Spans consist of whole tokens of one sentence and do not overlap.
    """
    sentences, spans, pieces, offset = [], [], [], 0
    for _ in range(rng.choice([1, 1, 2, 4])):
        words = rng.choices(TOKENS, k=rng.choice([1, 2, 3, 8, 20]))
        places = []
        for word in words:
            places.append((offset, offset + len(word)))
            offset += len(word) + 1
        sentences.append(places)
        pieces.append(' '.join(words))
        first = 0
        while first < len(places):
            if rng.random() < 0.3:
                last = min(len(places) - 1, first + rng.choice([0, 0, 1, 3]))
                spans.append((places[first][0], places[last][1], rng.choice(TYPES)))
                first = last
            first += 1
    return Example('\n'.join(pieces), spans, sentences)


def wild(rng):
    """Returns an example with random text and spans, sometimes with annotated parts."""
    text = rng.choice([hostile(rng, 30), clean(rng).text, '', ' '])
    # Joins adjacent halves of surrogate pairs, because JSON also reads them as one character.
    text = text.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'surrogatepass')

    def parts(most):
        return [tuple(sorted(rng.choices(range(len(text) + 1), k=2))) for _ in range(rng.randint(0, most))]
    spans = [(*part, rng.choice(TYPES)) for part in parts(5)]
    return Example(text, spans, None, parts(3) if rng.random() < 0.3 else None)


def tags_of(example, scheme):
    """The tags of each sentence of a clean example, in the scheme BIO or BIOES."""
    types = {}
    for start, end, kind in example.spans:
        inside = [place for sentence in example.sentences for place in sentence if start <= place[0] < end]
        for place in inside:
            first, last = place == inside[0], place == inside[-1]
            prefix = ('S' if first and last else 'B' if first else 'E' if last else 'I') if scheme == 'BIOES' else (
                'B' if first else 'I')
            types[place] = f'{prefix}-{kind}'
    return [[types.get(place, 'O') for place in sentence] for sentence in example.sentences]


def spans_of(tags, places):
    """The spans of BIO or BIOES tags as (start, end, type), with the offsets of the tokens in `places`."""
    spans = []
    for tag, (start, end) in zip(tags, places, strict=True):
        prefix, _, kind = tag.partition('-')
        if prefix in ('B', 'S'):
            spans.append((start, end, kind))
        elif prefix in ('I', 'E'):
            spans[-1] = spans[-1][0], end, kind
    return spans


def partial(rng, tags, mark):
    """Returns the tags of a sentence, some of which are unknown or partly known."""
    changed = []
    for tag in tags:
        prefix, _, kind = tag.partition('-')
        other = rng.choice([mark, f'{mark}-{kind}', f'{prefix}-{mark}', f'{mark}-{mark}']) if kind else mark
        changed.append(other if rng.random() < 0.4 else tag)
    return changed


# Writers of files, named after the formats. Each function takes a random generator and examples, some also tags.

def utf16(text, offset):
    """An offset in UTF-16 code units, which browser-based tools use."""
    return len(text[:offset].encode('utf-16-le', 'surrogatepass')) // 2


def _dumps(rng, value, **options):
    """JSON text; half of a surrogate pair is always escaped, because UTF-8 cannot encode it."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return text if rng.random() < 0.5 and not _SURROGATES.search(text) else json.dumps(value, **options)


def _lines(rng, records):
    if rng.random() < 0.3:
        return _dumps(rng, records, indent=rng.choice([None, 1]))
    return ''.join(_dumps(rng, record) + '\n' for record in records)


def _judged(example):
    return {} if example.judged is None else {'judged': example.judged}


def doccano(rng, examples):
    name = rng.choice(['label', 'labels', 'entities'])
    records = []
    for number, example in enumerate(examples):
        spans = example.spans
        if name == 'entities':
            spans = [{'id': index, 'label': kind, 'start_offset': start, 'end_offset': end}
                     for index, (start, end, kind) in enumerate(spans)]
        records.append({'id': number, 'text': example.text, name: spans, **_judged(example)})
    return _lines(rng, records)


def label_studio(rng, examples):
    tasks, counts, short = [], rng.choice([utf16, lambda _, offset: offset]), rng.random() < 0.3
    for number, example in enumerate(examples, 1):
        text = example.text
        values = [{'start': counts(text, start), 'end': counts(text, end), 'text': text[start:end], 'labels': [kind]}
                  for start, end, kind in example.spans]
        results = [{'id': f'r{index}', 'from_name': 'label', 'to_name': 'text', 'type': 'labels', 'value': value}
                   for index, value in enumerate(values)]
        tasks.append({'id': number, 'text': text, 'label': values, 'annotation_id': number} if short else
                     {'id': number, 'data': {'text': text}, 'annotations': [{'id': 1, 'result': results}]})
    return _dumps(rng, tasks)


def prodigy(rng, examples):
    with_tokens, records = rng.random() < 0.5, []
    for example in examples:
        record = {'text': example.text, 'spans': [{'start': start, 'end': end, 'label': kind}
                                                  for start, end, kind in example.spans]}
        if with_tokens and example.sentences:
            record['tokens'] = [{'text': example.text[start:end], 'start': start, 'end': end, 'id': number}
                                for number, (start, end) in enumerate(place for sentence in example.sentences
                                                                      for place in sentence)]
        records.append({**record, **_judged(example), 'answer': 'accept'})
    return _lines(rng, records)


def spacy(rng, examples):
    if rng.random() < 0.5:
        return _lines(rng, [[example.text, {'entities': example.spans, **_judged(example)}] for example in examples])
    return _lines(rng, [{'text': example.text, 'entities': example.spans, **_judged(example)} for example in examples])


def brat(example):
    """The text and the annotations of a brat document."""
    notes = []
    for number, (start, end, kind) in enumerate(example.spans, 1):
        shown = ' '.join(re.split('[\r\n]', example.text[start:end]))
        notes.append(f'T{number}\t{kind} {start} {end}\t{shown}\n')
        if number == 2:
            notes.append('R1\tsees Arg1:T1 Arg2:T2\n#1\tAnnotatorNotes T1\tsure\n')
    return example.text, ''.join(notes)


def tokens(rng, examples, tags):
    return ''.join(json.dumps({'tokens': [example.text[start:end] for start, end in places],
                               'tags': [None if tag == '?' and rng.random() < 0.5 else tag for tag in own]}) + '\n'
                   for example, sentences in zip(examples, tags) for places, own in zip(example.sentences, sentences))


def conllu(_, examples, tags):
    lines = []
    for example, sentences in zip(examples, tags):
        lines.append('# newdoc')
        for places, own in zip(example.sentences, sentences):
            lines.append(f'# text = {example.text[places[0][0]:places[-1][1]]}')
            for number, ((start, end), tag) in enumerate(zip(places, own), 1):
                misc = [f'NER={tag}'] * (tag != 'O')
                if number == len(places) and places is not example.sentences[-1]:
                    misc.append('SpacesAfter=\\n')
                lines.append('\t'.join([str(number), example.text[start:end], *'_' * 7, '|'.join(misc) or '_']))
            lines.append('')
    return '\n'.join([*lines, ''])


def _rows(examples, tags, row, heading=''):
    return ''.join(heading + ''.join(''.join(row.format(example.text[start:end], tag) for (start, end), tag in
                                             zip(places, own)) + '\n'
                                     for places, own in zip(example.sentences, sentences))
                   for example, sentences in zip(examples, tags))


def conll2003(_, examples, tags):
    return _rows(examples, tags, '{} NN _ {}\n', '-DOCSTART- -X- -X- O\n\n')


def columns(_, examples, tags):
    return _rows(examples, tags, '{}\t{}\n')


OF_SPANS = {'doccano': doccano, 'label-studio': label_studio, 'prodigy': prodigy, 'spacy': spacy, 'brat': brat}
OF_TAGS = {'tokens': tokens, 'conllu': conllu, 'conll2003': conll2003, 'columns': columns}
NAMES = {'label-studio': 'a.json', 'conllu': 'a.conllu', 'conll2003': 'a.conll', 'columns': 'a.tsv'}


def write(rng, material, kind, examples, tags=None):
    """Writes examples to a file; returns its path, or the path of the folder for brat.

    Args:
        kind: the format.
        tags: the tags of each sentence of each example; by default the tags of its spans.
    """
    if kind == 'brat':
        for number, example in enumerate(examples):
            text, notes = brat(example)
            material.file(f'brat/{number:03}.ann', notes.encode('utf-8', 'surrogatepass'))
            name = material.file(f'brat/{number:03}.txt', text.encode('utf-8', 'surrogatepass'))
        return name.rpartition('/')[0] if len(examples) > 1 or rng.random() < 0.5 else name
    if kind in OF_TAGS:
        scheme = rng.choice(['BIO', 'BIOES'])
        data = OF_TAGS[kind](rng, examples, tags or [tags_of(example, scheme) for example in examples])
    else:
        data = OF_SPANS[kind](rng, examples)
    return material.file(NAMES.get(kind, 'a.jsonl'), data.encode())
