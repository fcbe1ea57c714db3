"""Tests run directories whose records hold invalid values: each gives an error message of one line."""

import json
import shutil
from pathlib import Path

from ms_crf.base.errors import CorpusError
from ms_crf.cli import infer
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs.run import SavedRun

import pytest

DEEP = '[' * 100_000


@pytest.mark.parametrize('name,text,message', [
    ('config.json', DEEP, 'config.json: expected JSON as training writes it: it is nested too deeply'),
    ('config.json', '{"a":' * 50 + '1' + '}' * 50, 'it is nested too deeply'),
    ('config.json', f'{{"format": {"9" * 5000}}}', 'expected JSON as training writes it: Exceeds the limit'),
    ('config.json', '{"format": NaN}', 'NaN is not a finite number'),
    ('config.json', '{"format": 1, "model": "hmm", "options": {}, "scheme": "\\ud800", "found_scheme": "BIO"}',
     '"scheme" to be one of BIO, '),
    ('config.json', '{"format": 1, "model": "hmm", "options": {}, "scheme": ["\\u0000"], "found_scheme": "BIO"}',
     '"scheme" to be one of BIO, '),
    ('config.json', '{"format": 1, "model": "bilstm", "options": {}, "word_dim": 1000000000000, "scheme": "BIO", '
     '"found_scheme": "BIO"}',
     'expected "word_dim" to be at most 65536, got 1000000000000'),
    ('config.json', '\xff', 'expected JSON as training writes it: '),
    ('vocab.json', DEEP, 'it is nested too deeply'),
    ('vocab.json', '{"tags": [], "words": [], "shapes": []}',
     'vocab.json: expected "tags" to be a list of at least one, got none'),
    ('vocab.json', '{"tags": [""], "words": [], "shapes": []}', 'expected "tags" to be strings that are not empty'),
    ('vocab.json', '{"tags": ["O", "O"], "words": [], "shapes": []}', '"tags" to be distinct, got \'O\' twice'),
    ('vocab.json', '{"tags": ["O", "NOUN"], "words": [], "shapes": []}', 'tags must be B-TYPE, I-TYPE, O (or without'),
    ('vocab.json', '{"tags": ["B-\\ud800"], "words": [], "shapes": []}', 'expected "tags" to be Unicode, got half of'),
])
def test_records_that_can_not_be(hmm, capsys, name, text, message):
    (hmm / 'checksums.json').unlink()
    (hmm / name).write_bytes(text.encode('latin-1'))
    assert infer.main(['--run', str(hmm), '--text', 'of']) == 2
    error = capsys.readouterr().err
    assert error.startswith('infer.py: ') and message in error and len(error.splitlines()) == 1, error


@pytest.mark.parametrize('change,message', [
    ({'tags': ['O', 'NOUN']}, 'tags must be B-TYPE, I-TYPE, O (or without types) under BIO, got \'NOUN\' at 1'),
    ({'tags': []}, 'expected "tags" to be a list of at least one, got none'),
    ({'words': ['']}, 'expected "words" to be strings that are not empty'),
    ({'char_length': 10 ** 9}, 'expected "char_length" to be at most 1000, got 1000000000'),
    ({'char_length': True}, 'expected "char_length" to be a whole number, got True'),
])
def test_records_vocabularies_that_can_not_be(undisturbed, tmp_path, change, message):
    shutil.copytree(undisturbed[0], tmp_path / 'run')
    (tmp_path / 'run' / 'checksums.json').unlink()
    path = Path(tmp_path / 'run' / 'vocab.json')
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorpusError) as raised:
        SavedRun.open(tmp_path / "run").vocabulary(Vocabulary)
    assert message in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_records_runs_of_earlier_versions_took_every_plain_tag_for_one(hmm):
    config = json.loads((hmm / 'config.json').read_text())
    assert SavedRun.open(hmm).unknown_tag == '?'
    del config['options']['unknown_tag']
    (hmm / 'checksums.json').unlink()
    marks = {}
    for scheme in ('BIO', 'plain'):
        (hmm / 'config.json').write_text(json.dumps({**config, 'found_scheme': scheme}))
        marks[scheme] = SavedRun.open(hmm).unknown_tag
    assert marks == {'BIO': '?', 'plain': ''}
