"""Tests unpaired surrogates in training words and in tags.

JSON strings may hold unpaired surrogates, but UTF-8 cannot encode them.
"""

import json

from ms_crf import Tagger
from ms_crf.cli import evaluate, infer, train
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun

import pytest

HALF, OTHER = 'Xan\ud800', '\udfff'
SENTENCES = [(['to', HALF, OTHER], ['O', 'B-PER', 'I-PER']), (['to', OTHER, 'to'], ['O', 'O', 'O'])]


def write(path, *lines):
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
    return str(path)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('halves')
    corpus = write(folder / 'train.jsonl', *({'tokens': tokens, 'tags': tags} for tokens, tags in SENTENCES * 5))
    assert train.main(['--train', corpus, '--dev', corpus, '--test', corpus, '--model', 'hmm', '--save',
                       str(folder / 'run')]) == 0
    return folder / 'run', corpus


def test_half_pairs_words_with_halves_are_learned_and_tagged(trained):
    """Checks that a model learns words with unpaired surrogates, and that vocab.json is valid UTF-8 and JSON.

    The predicted tags show that the model knows the words.
    """
    folder, _ = trained
    assert {HALF, OTHER} < set(json.loads((folder / 'vocab.json').read_bytes().decode())['words'])
    tagger = Tagger.load(folder)
    assert [tagged.tags for tagged in tagger.tag([tokens for tokens, _ in SENTENCES])] == [
        tags for _, tags in SENTENCES]


def test_half_pairs_commands_take_such_a_run_and_such_text(trained, tmp_path, capsys):
    folder, corpus = trained
    output = tmp_path / 'tagged.jsonl'
    assert infer.main(['--run', str(folder), '--input', corpus, '--output', str(output), '--format', 'json']) == 0
    first = json.loads(output.read_bytes().decode().splitlines()[0])
    assert (first['tokens'], first['tags']) == SENTENCES[0]
    assert evaluate.main(['--run', str(folder), '--input', corpus]) == 0
    assert capsys.readouterr().err == ''


def test_half_pairs_a_vocabulary_of_words_and_characters_comes_back(tmp_path):
    made = Vocabulary.of([tokens for tokens, _ in SENTENCES], [], ['O', 'B-PER', 'I-PER'], {}, 20)
    config = {'format': 1, 'model': 'bilstm', 'options': {}, 'word_dim': 6, 'scheme': 'BIO', 'found_scheme': 'BIO'}
    (tmp_path / 'run').mkdir()
    records.create(tmp_path / 'run', config, made.to_json())
    read = SavedRun.open(tmp_path / 'run').vocabulary(Vocabulary)
    assert read.to_json() == made.to_json() and {'\ud800'} < set(read.characters)


@pytest.mark.parametrize('record', [
    {'tokens': ['a', 'b'], 'tags': ['O', 'B-P\ud800']}, {'text': 'a b', 'label': [[0, 1, 'P\ud800']]}])
def test_half_pairs_a_tag_with_a_half_is_refused_with_its_line(trained, tmp_path, capsys, record):
    """Checks that such a tag is rejected with its line, because score tables and column files must be UTF-8."""
    folder, _ = trained
    corpus = write(tmp_path / 'odd.jsonl', {'tokens': ['a'], 'tags': ['B-P']}, record)
    message = f"{corpus}:2: expected tags that UTF-8 can hold, got an unpaired surrogate in '"
    capsys.readouterr()
    assert train.main(['--train', corpus, '--dev', corpus, '--model', 'hmm', '--save', str(tmp_path / 'run')]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f'train.py: {message}') and err.endswith("P\\ud800'\n") and len(err.splitlines()) == 1
    assert not (tmp_path / 'run').exists()
    for command, name in ((evaluate, 'ms-crf evaluate'), (infer, 'infer.py')):
        score = ['--score'] if command is infer else []
        assert command.main(['--run', str(folder), '--input', corpus, *score]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f'{name}: {message}') and len(err.splitlines()) == 1
