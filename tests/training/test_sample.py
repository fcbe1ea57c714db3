"""The sample corpus agrees with its generator and with its README."""

import shutil
import subprocess
import sys

from ms_crf.formats.dataset import load
from ms_crf.text.schemes import spans_of

import pytest

from support.paths import ROOT

DATA = ROOT / 'data'
PARTS = ('train', 'dev', 'test')


@pytest.fixture(scope='module')
def sample():
    return load({part: str(DATA / f'{part}.tsv') for part in PARTS})


def test_sample_the_generator_makes_these_very_files(tmp_path):
    shutil.copy(DATA / 'generate.py', tmp_path)
    subprocess.run([sys.executable, str(tmp_path / 'generate.py')], check=True, timeout=60, capture_output=True)
    for part in PARTS:
        assert (tmp_path / f'{part}.tsv').read_bytes() == (DATA / f'{part}.tsv').read_bytes()


def test_sample_names_of_dev_and_test_are_new(sample):
    assert sample.scheme == 'BIO' and not sample.repaired
    names = {part: {' '.join(sentence.tokens[first:last + 1]).lower() for sentence in sample.parts[part]
                    for _, first, last in spans_of(sentence.tags)} for part in PARTS}
    assert {kind for sentence in sample.parts['test'] for kind, *_ in spans_of(sentence.tags)} == {
        'PER', 'LOC', 'ORG', 'PROD'}
    assert not names['train'] & (names['dev'] | names['test'])


def test_sample_the_sizes_that_its_readme_names(sample):
    readme = (DATA / 'README.md').read_text(encoding='utf-8')
    for part in PARTS:
        tokens = sum(len(sentence.tokens) for sentence in sample.parts[part])
        entities = sum(len(spans_of(sentence.tags)) for sentence in sample.parts[part])
        row = next(line for line in readme.splitlines() if line.startswith(f'| `{part}.tsv`'))
        cells = [cell.strip() for cell in row.split('|')]
        assert (int(cells[2]), int(cells[3]), int(cells[8])) == (len(sample.parts[part]), tokens, entities)
