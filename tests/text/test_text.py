"""Tests column files, tag schemes and scores.

The oracles are hand-written results, and nervaluate on random tags.
"""

import json
import random
import re

from ms_crf.base.errors import CorpusError
from ms_crf.formats.registry import read_corpus
from ms_crf.text.metrics import score, table
from ms_crf.text.schemes import SchemeError, recognise_scheme, spans_of, strict_spans_of, tags_of

import pytest

from support.corpora import CORPORA, write


@pytest.mark.parametrize('text', [
    'EU\tB-ORG\nrejects\tO\n\nPeter\tB-PER\n',
    'EU B-ORG\nrejects  O\n\n\n\nPeter B-PER',
    '\ufeffEU\tB-ORG\r\nrejects\tO\r\n\r\nPeter\tB-PER\r\n',
    '-DOCSTART- O\n\nEU B-ORG\nrejects O\n \nPeter B-PER\n',
    '# id = 1\nEU\tB-ORG\nrejects\tO\n\n# id = 2\nPeter\tB-PER\n',
], ids=['tabs', 'blanks', 'windows', 'conll', 'comments'])
def test_text_columns(tmp_path, text):
    sentences = read_corpus(write(tmp_path, text))
    assert [(sentence.tokens, sentence.tags) for sentence in sentences] == [
        (['EU', 'rejects'], ['B-ORG', 'O']), (['Peter'], ['B-PER'])]


def test_text_columns_can_be_chosen(tmp_path):
    file = write(tmp_path, '1 EU NNP B-ORG x\n2 rejects VBZ O x\n')
    names, chunks = (read_corpus(file, columns)[0] for columns in ((1, 3), (1, -3)))
    assert names.tokens == chunks.tokens == ['EU', 'rejects']
    assert (names.tags, chunks.tags) == (['B-ORG', 'O'], ['NNP', 'VBZ'])


def test_text_what_looks_like_white_space_or_a_comment_stays_a_token(tmp_path):
    tokens = ['#hashtag', '#', 'no\u00a0break', '\u3000', '\u2028', 'a b', '\x85', '-']
    file = write(tmp_path, '\n'.join(f'{token}\tO' for token in tokens))
    assert read_corpus(file)[0].tokens == tokens


def test_text_json_lines(tmp_path):
    rows = [{'tokens': ['a b', 'c'], 'tags': ['O', 'B'], 'id': 1}, {'tokens': [], 'tags': []},
            {'tokens': ['d'], 'tags': ['I']}]
    file = write(tmp_path, '\n\n'.join(map(json.dumps, rows)), 'corpus.jsonl')
    assert [(one.tokens, one.tags, one.line) for one in read_corpus(file)] == [
        (['a b', 'c'], ['O', 'B'], 1), (['d'], ['I'], 5)]


@pytest.mark.parametrize('text,name,message', [
    ('a O\nb\n', 'x.tsv',
     "x.tsv:2: expected columns 0 and -1 to hold token and tag, separated by tabs or spaces, got 'b'"),
    ('a\tO\n\tO\n', 'x.tsv', "x.tsv:2: expected a token and a tag, got an empty column in '\\tO'"),
    ('', 'x.tsv', 'x.tsv: expected tagged sentences, got none'),
    ('# only a comment\n', 'x.tsv', 'x.tsv: expected tagged sentences, got none'),
    (b'a\tO\nb\xff\tO\n', 'x.tsv', 'x.tsv:2: expected UTF-8, got byte 0xff at column 2'),
    ('{"tokens": ["a"]}', 'x.jsonl', 'x.jsonl:1: expected "tags" to be a list of strings that are not empty, got null'),
    ('\n{"tokens": ["a", "b"], "tags": ["O"]}', 'x.jsonl',
     'x.jsonl:2: expected a tag for each token, got 2 tokens and 1 tags'),
    ('{"tokens": ["a", 1], "tags": ["O", "O"]}', 'x.jsonl', 'x.jsonl:1: expected "tokens" to be a list of strings'),
    ('{"tokens"', 'x.jsonl', 'x.jsonl:1: expected a JSON object: '),
    ('[1]', 'x.jsonl', "x.jsonl:1: expected a JSON object, got '[1]'"),
])
def test_text_faults_are_named_with_file_and_line(tmp_path, text, name, message):
    with pytest.raises(CorpusError) as raised:
        read_corpus(write(tmp_path, text, name))
    assert message in str(raised.value)


def test_text_files_that_are_not_there(tmp_path):
    with pytest.raises(CorpusError, match='nowhere.tsv: no such file'):
        read_corpus(tmp_path / 'nowhere.tsv')
    with pytest.raises(CorpusError, match='expected a file, got a folder'):
        read_corpus(tmp_path)


@pytest.mark.parametrize('sentences,scheme', [
    (['O B-X I-X O', 'B-Y'], 'BIO'),
    (['O I-X I-X', 'I-X B-X O'], 'IOB1'),
    (['I-X O', 'O B-X'], 'BIO'),            # IOB1 has no B after O, so this is BIO with an invalid I
    (['O O'], 'BIO'),
    (['B I O', 'O B'], 'BIO'),
    (['B-X E-X O S-Y'], 'BIOES'),
    (['B I E S O'], 'BIOES'),
    (['B M E S', 'S B E'], 'BMES'),
    (['B E S S'], 'BMES'),
    (['B-X M-X E-X O'], 'BMES'),
    (['NOUN VERB X'], 'plain'),
    (['NN O I'], 'plain'),
])
def test_text_schemes(sentences, scheme):
    assert recognise_scheme([sentence.split() for sentence in sentences]) == scheme


def test_text_tags_of_no_scheme():
    expected = "expected 'O' or one of B, I, E, M, S with a type like 'B-X', got 'NOUN'"
    with pytest.raises(SchemeError, match=expected) as raised:
        recognise_scheme([['O'], ['B-X', 'NOUN']])
    assert (raised.value.sentence, raised.value.position) == (1, 1)
    with pytest.raises(SchemeError, match="expected M inside of spans as in the rest of the corpus, got 'I-X'"):
        recognise_scheme([['B-X', 'M-X', 'E-X'], ['B-X', 'I-X']])


@pytest.mark.parametrize('tags,lenient,strict', [
    ('O B-X I-X O B-X B-X', [('X', 1, 2), ('X', 4, 4), ('X', 5, 5)], [('X', 1, 2), ('X', 4, 4), ('X', 5, 5)]),
    ('I-X I-X O', [('X', 0, 1)], []),
    ('B-X I-Y I-Y', [('X', 0, 0), ('Y', 1, 2)], [('X', 0, 0)]),
    ('B I O I', [('', 0, 1), ('', 3, 3)], [('', 0, 1)]),
])
def test_text_spans_of_bio(tags, lenient, strict):
    assert spans_of(tags.split()) == lenient
    assert strict_spans_of(tags.split(), 'BIO') == strict


@pytest.mark.parametrize('tags,lenient,strict', [
    ('B M E S', [('', 0, 2), ('', 3, 3)], [('', 0, 2), ('', 3, 3)]),
    ('M E S B', [('', 0, 1), ('', 2, 2), ('', 3, 3)], [('', 2, 2)]),
    ('B B E E', [('', 0, 0), ('', 1, 2), ('', 3, 3)], [('', 1, 2)]),
])
def test_text_words(tags, lenient, strict):
    """Checks that lenient spans of invalid BMES tags still cover every character, by the rules of conlleval."""
    assert spans_of(tags.split()) == lenient
    assert strict_spans_of(tags.split(), 'BMES') == strict


@pytest.mark.parametrize('scheme,tags', [
    ('BIO', 'B-X I-X B-X O B-Y'), ('IOB1', 'I-X I-X B-X O I-Y'), ('BIOES', 'B-X E-X S-X O S-Y'),
    ('BMES', 'B-X E-X S-X O S-Y'),
])
def test_text_tags_of_spans(scheme, tags):
    spans = [('X', 0, 1), ('X', 2, 2), ('Y', 4, 4)]
    assert tags_of(spans, 5, scheme) == tags.split()
    assert spans_of(tags.split()) == spans


def random_tags(rng, prefixes):
    tags = ['O', *(f'{prefix}-{kind}' for prefix in prefixes for kind in ('PER', 'LOC', 'ORG'))]
    return [rng.choice(tags) for _ in range(rng.randint(1, 9))]


#: regular expressions for the spans in a line of tags, by (prefixes, strict)
SPANS = {
    ('BI', False): r'[BI]-(\w+)(?: I-\1)*',
    ('BI', True): r'B-(\w+)(?: I-\1)*',
    ('BIES', False): r'[SE]-(?:\w+)|[BI]-(\w+)(?: I-\1)*(?: E-\1)?',
    ('BIES', True): r'S-(?:\w+)|B-(\w+)(?: I-\1)* E-\1',
}


def spans_by_pattern(tags, pattern):
    """Returns the spans of a line of tags in the format of nervaluate."""
    line = ' '.join(tags)
    return [{'label': match.group()[2:].split()[0], 'start': line[:match.start()].count(' '),
             'end': line[:match.end()].count(' ')} for match in re.finditer(pattern, line)]


@pytest.mark.parametrize('scheme,prefixes,strict', [
    ('BIO', 'BI', False), ('BIO', 'BI', True), ('BIOES', 'BIES', False), ('BIOES', 'BIES', True)])
def test_text_same_scores_as_nervaluate(scheme, prefixes, strict):
    """Compares scores of random tags with nervaluate; most of the tag sequences are invalid.

    Regular expressions extract the spans that nervaluate counts.
    """
    nervaluate = pytest.importorskip('nervaluate')
    rng = random.Random(0)
    pattern = SPANS[prefixes, strict]
    for _ in range(20):
        gold = [random_tags(rng, prefixes) for _ in range(30)]
        predicted = [[tag if rng.random() < 0.7 else rng.choice(random_tags(rng, prefixes)) for tag in tags]
                     for tags in gold]
        found = score(gold, predicted, scheme, strict)
        sides = [[spans_by_pattern(tags, pattern) for tags in side] for side in (gold, predicted)]
        kinds = sorted({span['label'] for side in sides for spans in side for span in spans})
        expected = nervaluate.Evaluator(*sides, tags=kinds, loader='dict').evaluate()['overall']['strict']
        assert (found.spans.precision, found.spans.recall, found.spans.f1) == pytest.approx(
            (expected.precision, expected.recall, expected.f1))
        if (prefixes, strict) == ('BI', False):                  # nervaluate can read these tags itself
            read = nervaluate.Evaluator(gold, predicted, tags=kinds, loader='list').evaluate()['overall']['strict']
            assert read == expected
        pairs = [pair for sentence in zip(gold, predicted) for pair in zip(*sentence)]
        assert found.accuracy == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
        assert set(found.by_type) == set(kinds)
        for kind, counts in found.by_type.items():
            alone = [[[span for span in spans if span['label'] == kind] for spans in side] for side in sides]
            expected = nervaluate.Evaluator(*alone, tags=[kind], loader='dict').evaluate()['overall']['strict']
            assert (counts.precision, counts.recall, counts.f1, counts.gold) == pytest.approx(
                (expected.precision, expected.recall, expected.f1, expected.possible))


def test_text_table():
    gold = ['B-PER I-PER O B-LOC'.split(), 'O B-LOC'.split()]
    predicted = ['B-PER I-PER O O'.split(), 'O B-PER'.split()]
    assert table(score(gold, predicted, 'BIO')) == [
        'processed 6 tokens with 3 phrases; found: 2 phrases; correct: 1.',
        'accuracy:  66.67%; precision:  50.00%; recall:  33.33%; FB1:  40.00',
        '              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0',
        '              PER: precision:  50.00%; recall: 100.00%; FB1:  66.67  2',
    ]


def test_text_scores_of_plain_tags_and_of_nothing():
    found = score([['NOUN', 'VERB']], [['NOUN', 'NOUN']], 'plain')
    assert found.accuracy == found.spans.f1 == 0.5
    assert score([['O']], [['O']], 'BIO').spans.f1 == 0.0
    with pytest.raises(ValueError, match='sentence 1 must have a predicted tag for each gold tag'):
        score([['O'], ['O', 'O']], [['O'], ['O']], 'BIO')
    with pytest.raises(ValueError, match=r'predicted must hold a sentence for each of gold \(1\), got 0'):
        score([['O']], [], 'BIO')


@pytest.mark.skipif(not CORPORA.exists(), reason='the corpora are not here')
@pytest.mark.parametrize('folder,scheme,sentences', [
    ('en-wnut17-ner', 'BIO', 1287), ('en-btc-ner', 'BIO', 2000), ('en-wikigold-ner-iob1', 'IOB1', 169),
    ('en-ewt-pos', 'plain', 2077), ('zh-weibo-ner', 'BIO', 270), ('zh-udc-seg', 'BMES', 500)])
def test_text_real_corpora(folder, scheme, sentences):
    file = CORPORA / folder / 'test.tsv'
    corpus = read_corpus(file)
    tags = [sentence.tags for sentence in corpus]
    assert len(corpus) == sentences
    assert sum(map(len, tags)) == sum(bool(line.strip()) for line in file.read_bytes().split(b'\n'))
    assert recognise_scheme(tags) == scheme
    if scheme != 'plain':
        for sentence_tags in tags:
            spans = spans_of(sentence_tags)
            for target in ('BIO', 'IOB1', 'BIOES', 'BMES'):
                assert spans_of(tags_of(spans, len(sentence_tags), target)) == spans
