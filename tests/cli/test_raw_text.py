"""Tests `infer.py --raw` and `Tagger.tag_text` with hidden Markov models.

Tags must have the correct character offsets in the raw text.
"""

import gzip
import json
import re
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.base.errors import OptionError
from ms_crf.cli import infer, train
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun

import pytest

from support.paths import ROOT
from support.runs import make_run
from support.trainings import files

# Line ends of three systems, a byte order mark, invisible white space, emoji and right-to-left letters.
TEXT = ('\ufeff  to Xan Yan of. in on Xel\u00a0Yel!\r\nby by\tXor Yor (to) \U0001f600e\u0301\r\n\r\n\r\n'
        '\u05e9\u05dc\u05d5\u05dd of Xan Yor\rat at <b>\n\n   \n')
BRACKETS = re.compile(r'\[([^\]]*) PER\]')


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / 'text.txt'
    path.write_bytes(TEXT.encode())
    return path


@pytest.fixture
def infer_py(capfdbinary):
    """Runs infer.py in this process and returns its exit status, standard output and standard error.

    Line ends stay unchanged.
    """
    def call(*arguments):
        capfdbinary.readouterr()
        status = infer.main([str(argument) for argument in arguments])
        return status, *(stream.decode() for stream in capfdbinary.readouterr())
    return call


def records_of(shown):
    return [json.loads(line) for line in shown.splitlines()]


@pytest.mark.parametrize('splitter', ['spacy-en', 'blanks', 'characters+words'])
def test_raw_text_text_keeps_every_character(run, text_file, infer_py, splitter):
    pytest.importorskip('spacy')
    status, shown, errors = infer_py('--run', run, '--input', text_file, '--raw', '--splitter', splitter)
    assert status == 0 and not errors
    assert '[' in shown and BRACKETS.sub(r'\1', shown) == TEXT


@pytest.mark.parametrize('splitter', ['spacy-en', 'blanks', 'characters+words'])
def test_raw_text_places_in_json_are_those_in_the_text(run, text_file, infer_py, splitter):
    pytest.importorskip('spacy')
    status, shown, errors = infer_py('--run', run, '--input', text_file, '--raw', '--format', 'json', '--splitter',
                                     splitter)
    assert status == 0 and not errors
    end, entities = 0, 0
    for record in records_of(shown):
        assert end <= record['start'] and TEXT[record['start']:record['end']] == record['text']
        end = record['end']
        assert [TEXT[begin:after] for begin, after in record['offsets']] == record['tokens']
        for entity in record['entities']:
            assert TEXT[entity['start']:entity['end']] == entity['text']
            assert [entity['start'], entity['end']] == [record['offsets'][entity['first']][0],
                                                        record['offsets'][entity['last']][1]]
            entities += 1
    assert entities > 2


def test_raw_text_a_tagger_gives_the_same_as_the_command(run, text_file, infer_py):
    pytest.importorskip('spacy')
    tagger = Tagger.load(run)
    found = tagger.tag_text(TEXT)
    shown = records_of(infer_py('--run', run, '--input', text_file, '--raw', '--format', 'json')[1])
    assert [(one.start, one.end) for one in found] == [(record['start'], record['end']) for record in shown]
    assert [[list(pair) for pair in one.offsets] for one in found] == [record['offsets'] for record in shown]
    assert [[(entity.type, entity.start, entity.end) for entity in one.entities] for one in found] == [
        [(entity['type'], entity['start'], entity['end']) for entity in record['entities']] for record in shown]
    assert [one.sentence for one in found] == tagger.tag([one.sentence.tokens for one in found])
    assert tagger.tag_text(' \n') == []
    with pytest.raises(TypeError, match='^text must be a string, got list$'):
        tagger.tag_text(['to'])
    with pytest.raises(OptionError, match='^a splitter must be blanks, '):
        tagger.tag_text('to', splitter='none')


def test_raw_text_columns_and_one_sentence(run, text_file, infer_py):
    raw = ('--raw', '--splitter', 'blanks')
    status, shown, _ = infer_py('--run', run, '--input', text_file, *raw, '--format', 'conll')
    tokens = [line.split('\t')[0] for line in shown.split('\n') if line]
    assert status == 0 and tokens == [token for line in re.split('[\r\n]', TEXT)
                                      for token in re.split('[ \t]+', line) if token]
    assert infer_py('--run', run, '--text', 'of Xan Yan', *raw)[:2] == (0, 'of [Xan Yan PER]\n')


@pytest.mark.slow
def test_raw_text_gzip_and_standard_input(run, tmp_path, infer_py):
    with gzip.open(tmp_path / 'text.txt.gz', 'wb') as file:
        file.write(TEXT.encode())
    arguments = ['--run', str(run), '--raw', '--splitter', 'blanks']
    status, shown, _ = infer_py(*arguments, '--input', tmp_path / 'text.txt.gz')
    piped = subprocess.run([sys.executable, str(ROOT / 'infer.py'), *arguments], input=TEXT.encode(),
                           capture_output=True, timeout=120)
    assert status == piped.returncode == 0 and piped.stdout.decode() == shown and not piped.stderr
    assert BRACKETS.sub(r'\1', shown) == TEXT


def test_raw_text_what_is_no_utf_8_is_told_and_stays_in_its_place(run, tmp_path, infer_py):
    path = tmp_path / 'text.txt'
    path.write_bytes(b'of Xan\r\nto \xff Yan\n')
    status, shown, errors = infer_py('--run', run, '--input', path, '--raw', '--splitter', 'blanks')
    assert status == 0 and BRACKETS.sub(r'\1', shown) == 'of Xan\r\nto \ufffd Yan\n'
    assert errors == (f'infer.py: {path}:2: expected UTF-8, got byte 0xff at column 4; tagged with replacement '
                      'characters\n')
    status, _, errors = infer_py('--run', run, '--input', path, '--raw', '--splitter', 'blanks', '--strict')
    assert status == 2 and errors == f'infer.py: {path}:2: expected UTF-8, got byte 0xff at column 4\n'


@pytest.mark.parametrize('arguments,message', [
    (['--splitter', 'blanks'], '--splitter has no effect without --raw, or texts with spans to --score; omit it'),
    (['--raw', '--chars'], '--chars has no effect with --raw; omit it'),
    (['--raw', '--input-format', 'conll'],
     '--raw needs text, got conll; add --input-format text if the file contains text'),
    (['--raw', '--splitter', 'no'], '--splitter must be blanks, characters, characters+words, or spacy- and the code '
                                    "of a language such as spacy-en, got 'no'")])
def test_raw_text_options_that_do_not_go_together(run, text_file, infer_py, arguments, message):
    assert infer_py('--run', run, '--input', text_file, *arguments) == (2, '', f'infer.py: {message}\n')


# The splitter that a run records

def test_raw_text_a_run_says_how_its_text_was_cut(corpora, tmp_path, run):
    assert SavedRun.open(run).config['splitter'] == Tagger.load(run).splitter == 'spacy-en'
    other = tmp_path / 'other'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(other), '--splitter', 'spacy-de']) == 0
    assert Tagger.load(other).splitter == 'spacy-de'


@pytest.mark.parametrize('word,splitter', [('X', 'characters'), ('Xiaomi', 'characters+words')])
def test_raw_text_characters_stay_characters(tmp_path, word, splitter):
    path = tmp_path / 'train.tsv'
    path.write_text('\n'.join(f'{character}\tO' for character in [*'今天很好我们去看电影吧', word]) + '\n')
    arguments = ['--train', str(path), '--dev', str(path), '--model', 'hmm', '--save', str(tmp_path / 'run')]
    assert train.main(arguments) == 0
    tagger = Tagger.load(tmp_path / 'run')
    assert tagger.splitter == splitter
    [found] = tagger.tag_text('看Xi 吧')
    assert found.sentence.tokens == ['看', *(['Xi'] if '+' in splitter else 'Xi'), '吧']


@pytest.mark.slow
def test_raw_text_runs_of_earlier_versions_and_graphs(tmp_path):
    """Checks the splitter of runs without a recorded splitter, and of exported graphs.

    If a run records no splitter, the splitter is derived from the words of the run. A graph has the splitter of its
    run.
    """
    from ms_crf.models import mindir
    folder = make_run(tmp_path / 'run')
    assert Tagger.load(folder).splitter == 'spacy-en'
    config = SavedRun.open(folder).config
    assert 'splitter' not in config
    records.write_json(folder / 'config.json', {**config, 'splitter': 'blanks'})
    assert Tagger.load(folder).splitter == 'blanks'
    mindir.export(folder, tmp_path / 'graph.mindir')
    assert Tagger.load(tmp_path / 'graph.mindir').splitter == 'blanks'
    records.write_json(folder / 'config.json', {**config, 'splitter': 'no'})
    with pytest.raises(ValueError, match='expected "splitter" to be blanks, characters, .* got \'no\'$'):
        Tagger.load(folder)


def test_raw_text_a_fault_of_the_option_in_training(corpora, tmp_path, capfd):
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(tmp_path / 'run'), '--splitter', 'no']) == 2
    assert capfd.readouterr().err.startswith('train.py: --splitter must be blanks, characters, ')
    assert not (tmp_path / 'run').exists()
