"""Tests the table of formats: which format a file name stands for, and how to add a custom format."""

import re

from ms_crf.api import convert
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.cli import infer, train
from ms_crf.formats import registry
from ms_crf.formats.registry import Format, of_corpus, of_file, of_stream, of_target
from ms_crf.text.sentence import Sentence

import pytest

CORPUS = 'Ada/B-PER saw/O Rome/B-LOC\nBob/B-PER left/O\n' * 20


def read_slashes(lines, name, reading):
    """Reads a custom format: one sentence per line, with a slash between each token and its tag."""
    for line in lines:
        pairs = [word.rpartition('/')[::2] for word in line[1].split()] if line else []
        if line and reading.with_gold and not all(token and tag for token, tag in pairs):
            raise CorpusError(name, line[0], f'expected word/TAG, got {line[1]!r}')
        yield line and Sentence([token or tag for token, tag in pairs],
                                [tag for _, tag in pairs] if reading.with_gold else [], line=line[0])


def slashes(sentence, look):
    return ' '.join(f'{token}/{tag}' for token, tag in zip(sentence.tokens, sentence.tags)) + '\n'


@pytest.fixture
def slash():
    """Registers the custom format for one test."""
    before = [list(names) for names in (registry.SOURCES, registry.TARGETS, registry.STREAMS, registry.OUTPUTS)]
    registry.register(Format('slash', ('.slash',), 'slash', read_slashes, line=slashes, holds=frozenset({'tags'})))
    yield
    del registry.FORMATS['slash']
    for names, old in zip((registry.SOURCES, registry.TARGETS, registry.STREAMS, registry.OUTPUTS), before):
        names[:] = old


def test_registry_further_format_is_trained_on_tagged_and_converted(slash, tmp_path, capfd):
    corpus, run = tmp_path / 'a.slash', tmp_path / 'run'
    corpus.write_text(CORPUS)
    assert train.main(['--model', 'hmm', '--train', str(corpus), '--dev', str(corpus), '--save', str(run)]) == 0
    plain, tagged = tmp_path / 'b.slash', tmp_path / 'c.slash'
    plain.write_text('Bob saw Rome\n')
    assert infer.main(['--run', str(run), '--input', str(plain), '--format', 'slash', '--output', str(tagged)]) == 0
    assert tagged.read_text() == 'Bob/B-PER saw/O Rome/B-LOC\n'
    assert infer.main(['--run', str(run), '--input', str(corpus), '--score']) == 0
    assert 'precision: 100.00%' in capfd.readouterr().out
    found = convert(corpus, tmp_path / 'a.tsv')
    assert (found.from_, found.to, found.sentences, found.spans) == ('slash', 'columns', 40, 60)
    convert(tmp_path / 'a.tsv', tmp_path / 'back.slash')
    assert (tmp_path / 'back.slash').read_text() == CORPUS
    convert(tmp_path / 'a.tsv', tmp_path / 'bioes.slash', scheme='BIOES')
    assert (tmp_path / 'bioes.slash').read_text() == CORPUS.replace('B-', 'S-')


def test_registry_faults_of_a_further_format_are_named_with_their_lines(slash, tmp_path):
    (tmp_path / 'a.slash').write_text('Ada/B-PER\nsaw\n')
    with pytest.raises(CorpusError, match=r"a\.slash:2: expected word/TAG, got 'saw'$"):
        convert(tmp_path / 'a.slash', tmp_path / 'a.tsv')
    with pytest.raises(OptionError, match='^columns has no effect with slash; omit it$'):
        convert(tmp_path / 'a.slash', tmp_path / 'a.tsv', columns='0,1')


@pytest.mark.parametrize('name,corpus,stream', [
    ('a.jsonl', 'json', 'json'), ('a.json.gz', 'json', 'json'), ('a.conllu', 'conllu', 'conllu'),
    ('a.tsv', 'columns', 'columns'), ('a.bmes.gz', 'columns', 'columns'), ('a.ann', 'brat', 'text'),
    ('a.txt', 'columns', 'text'), ('a', 'columns', 'text'), ('a.html', 'columns', 'text')])
def test_registry_format_by_the_name_of_a_file(name, corpus, stream):
    assert (of_corpus(name).name, of_stream(name).name) == (corpus, stream)


def test_registry_format_by_what_lies_next_to_a_file_and_by_how_it_begins(tmp_path):
    text, notes, other = tmp_path / 'a.txt', tmp_path / 'a.ann', tmp_path / 'b.txt'
    text.write_text(' \n [1]')
    assert of_corpus(text).name == 'columns' and of_file(text).name == 'json'
    notes.write_text('')
    assert [of_corpus(path).name for path in (text, notes, tmp_path)] == ['brat'] * 3
    other.write_text('Ada saw')
    assert of_file(other) is None and of_corpus(other).name == 'columns'


def test_registry_format_of_a_file_to_be_written(tmp_path):
    names = {'a.ann': 'brat', 'a/': 'brat', str(tmp_path): 'brat', 'a.conllu': 'conllu', 'a.tsv.gz': 'columns'}
    assert {name: of_target(name).name for name in names} == names
    assert [of_target(name) for name in ('a.jsonl', 'a.txt', 'a', 'a.html')] == [None] * 4


def test_registry_format_of_a_stream_that_is_named():
    assert [of_stream('a.conllu', 'conll').name, of_stream('a.txt', 'conll').name, of_stream('a.tsv', 'json').name,
            of_stream('a.jsonl', 'text').name] == ['conllu', 'columns', 'json', 'text']


def test_registry_rows_of_the_table_are_whole():
    """Each format has a reader or a writer, and no two formats share an ending."""
    endings = [ending for row in registry.FORMATS.values() for ending in row.endings]
    assert len(set(endings)) == len(endings) and all(re.fullmatch(r'\.[a-z0-9]+', ending) for ending in endings)
    assert ['json', *registry.TARGETS] == registry.SOURCES
    assert registry.OUTPUTS == [*registry.STREAMS, 'html'] == ['text', 'conll', 'json', 'html']
