"""Tests round trips between formats. Everything that both formats can hold must be unchanged."""

import json
from pathlib import Path

from ms_crf.cli import convert
from ms_crf.formats.registry import read_corpus

import pytest

from support.properties import given, settings
from support.properties import strategies as st

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
OF_SPANS = {'doccano': 'x.jsonl', 'label-studio': 'x.json', 'prodigy': 'x.jsonl', 'spacy': 'x.jsonl', 'brat': 'folder'}
OF_TAGS = {'tokens': 'x.jsonl', 'conllu': 'x.conllu', 'conll2003': 'x.conll', 'columns': 'x.tsv'}
WORDS = st.text(st.characters(exclude_categories=['Cs', 'Cc', 'Zs', 'Zl', 'Zp', 'Cf']), min_size=1, max_size=4)
TYPES = st.sampled_from(['PER', 'a-b', 'Ω'])


@st.composite
def marked(draw, spaces=(' ', '  ', '\n', '\t', '\r\n', ' \n\n ')):
    """Draws a text of words, and spans [start, end, type] of some of the words.

    The spans do not overlap, and no span crosses a line end.
    """
    text, spans = draw(st.sampled_from(['', ' '])), []
    for word in draw(st.lists(WORDS, min_size=1, max_size=6)):
        start = len(text)
        text += word
        if draw(st.booleans()):
            spans.append([start, len(text), draw(TYPES)])
        elif draw(st.booleans()) and spans and '\n' not in text[spans[-1][0]:] and spans[-1][1] + 1 == start:
            spans[-1][1] = len(text)
        text += draw(st.sampled_from(spaces))
    return [text if draw(st.booleans()) else text.rstrip(), spans]


@st.composite
def tagged(draw):
    """Draws tokens with valid BIO tags."""
    rows = draw(st.lists(st.tuples(WORDS, st.one_of(st.none(), TYPES), st.booleans()), min_size=1, max_size=6))
    tags = []
    for _, kind, begins in rows:
        inside = kind and not begins and tags and tags[-1].endswith(f'-{kind}')
        tags.append('O' if kind is None else f'{"I" if inside else "B"}-{kind}')
    return [token for token, *_ in rows], tags


class Converter:
    """Runs the convert command. Each call writes to a new folder."""

    def __init__(self, base, capfd):
        self.base, self.capfd, self.count = base, capfd, 0

    def __call__(self, path, kind, source=None):
        self.count += 1
        folder = self.base / str(self.count)
        folder.mkdir()
        output = folder / {**OF_SPANS, **OF_TAGS}[kind]
        has_tokens = kind in OF_TAGS and str(path).endswith(('.tsv', '.conll', '.conllu'))
        status = convert.main([str(path), str(output), '--to', kind, *(['--from', source] if source else []),
                               *([] if has_tokens else ['--splitter', 'blanks'])])
        assert status == 0, self.capfd.readouterr().err
        return output


@pytest.fixture(scope='module')
def base(tmp_path_factory):
    return tmp_path_factory.mktemp('trips')


COUNT = iter(range(10_000))


@pytest.fixture
def converter(base, capfd):
    folder = base / str(next(COUNT))
    folder.mkdir()
    return Converter(folder, capfd)


def spans_of(path):
    """Returns [text, sorted spans] of each line of a doccano file."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding='utf-8').split('\n') if line]
    return [[row['text'], sorted(row['label'])] for row in rows]


def write(converter, rows):
    path = converter.base / 'in.jsonl'
    path.write_text(''.join(json.dumps({'text': text, 'label': spans}) + '\n' for text, spans in rows))
    return path


@pytest.mark.parametrize('kind', OF_SPANS)
def test_round_trips_spans_go_and_come_back(kind, converter):
    @quick
    @given(rows=st.lists(marked(), min_size=1, max_size=3))
    def check(rows):
        there = converter(write(converter, rows), kind)
        assert spans_of(converter(there, 'doccano')) == rows

    check()


def test_round_trips_spans_go_through_conllu_with_all_white_space(converter):
    """Checks that all white space survives a round trip through CoNLL-U.

    Each text has at least one word, because CoNLL-U stores white space with a word.
    """
    @quick
    @given(rows=st.lists(marked(), min_size=1, max_size=3))
    def check(rows):
        there = converter(write(converter, rows), 'conllu')
        assert spans_of(converter(there, 'doccano')) == rows

    check()


@pytest.mark.parametrize('kind', ['tokens', 'conll2003', 'columns'])
def test_round_trips_spans_in_texts_of_a_line_with_single_blanks_go_through_tags(kind, converter):
    @quick
    @given(row=marked((' ',)))
    def check(row):
        row[0], shift = row[0].strip(), len(row[0]) - len(row[0].lstrip())
        row[1] = [[start - shift, end - shift, kind] for start, end, kind in row[1]]
        there = converter(write(converter, [row]), kind)
        assert spans_of(converter(there, 'doccano')) == [row]

    check()


@pytest.mark.slow
@pytest.mark.parametrize('kind', [*OF_TAGS, *OF_SPANS])
@pytest.mark.parametrize('source', OF_TAGS)
def test_round_trips_tags_go_and_come_back(source, kind, converter):
    """Checks that tags survive a round trip between all formats of tags.

    They also survive a round trip through formats of spans, where the text is the tokens joined by spaces.
    """
    @settings(quick, max_examples=15)
    @given(rows=st.lists(tagged(), min_size=1, max_size=3))
    def check(rows):
        path = converter.base / 'in.jsonl'
        path.write_text('\n'.join(json.dumps({'tokens': tokens, 'tags': tags}) for tokens, tags in rows))
        first = converter(path, source)
        back = converter(converter(first, kind), source)
        columns = (1, 9) if source == 'conllu' else (0, -1)
        for file in (first, back):
            assert [(sentence.tokens, sentence.tags) for sentence in read_corpus(file, columns)] == rows

    check()


def test_round_trips_schemes_go_and_come_back(converter):
    path = converter.base / 'in.tsv'
    path.write_text('Ada\tB-PER\nLovelace\tI-PER\nBob\tB-PER\nsaw\tO\nRome\tB-LOC\n\n')
    for scheme, tags in (('IOB1', ['I-PER', 'I-PER', 'B-PER', 'O', 'I-LOC']),
                         ('BIOES', ['B-PER', 'E-PER', 'S-PER', 'O', 'S-LOC']),
                         ('BMES', ['B-PER', 'E-PER', 'S-PER', 'O', 'S-LOC'])):
        other, back = converter.base / f'{scheme}.tsv', converter.base / 'back.tsv'
        assert convert.main([str(path), str(other), '--scheme', scheme]) == 0
        assert read_corpus(other)[0].tags == tags
        assert convert.main([str(other), str(back), '--scheme', 'BIO']) == 0
        assert back.read_text() == path.read_text()


def test_round_trips_plain_tags_are_spans_of_one_token_each(converter):
    pytest.importorskip('spacy', reason='spaCy is missing: pip install -r requirements-text.txt')
    path = converter.base / 'in.tsv'
    path.write_text('the\tDET\nsea\tNOUN\n\n')
    there, back = converter(path, 'brat'), converter.base / 'back.tsv'
    assert (there / '1.ann').read_text() == 'T1\tDET 0 3\tthe\nT2\tNOUN 4 7\tsea\n'
    assert convert.main([str(there), str(back), '--scheme', 'plain']) == 0
    assert back.read_text() == path.read_text()
    conllu = converter(path, 'conllu').read_text()
    assert conllu == ('# sent_id = 1\n# text = the sea\n1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n'
                      '2\tsea\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n')
    assert converter(path, 'conll2003').read_text() == '-DOCSTART- -X- -X- O\n\nthe DET _ O\nsea NOUN _ O\n\n'
