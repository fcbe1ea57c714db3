"""Runs whose out-of-vocabulary words get n-gram vectors: training, tagging, resuming and fine-tuning."""

import json
import shutil

from ms_crf import Tagger
from ms_crf.cli import train
from ms_crf.formats.dataset import load
from ms_crf.models.words.ngrams import composed, learn
from ms_crf.models.words.vocabulary import UNKNOWN
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course

import numpy as np
import pytest

from support.trainings import SMALL, StopAt, files, options_of, printed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('steps_compiled_once')]


@pytest.fixture(scope='module')
def vectors(tmp_path_factory, corpora):
    """A file with vectors of most words of the corpora, and of other words with the same n-grams."""
    words = ['to', 'in', 'by', 'of', 'at', 'on',
             *(first + rest for first in 'xyz' for rest in ('an', 'el', 'or', 'anu'))]
    rng = np.random.default_rng(3)
    text = ''.join(f'{word} {" ".join(f"{number:.3f}" for number in rng.normal(size=6))}\n' for word in words)
    file = tmp_path_factory.mktemp('vectors') / 'vectors.txt'
    file.write_text(text)
    return file


@pytest.fixture(scope='module')
def run(tmp_path_factory, corpora, vectors):
    """A run with n-gram vectors, trained by `train.py`."""
    folder = tmp_path_factory.mktemp('run') / 'run'
    status, output, errors = printed(train.main, *files(corpora), *SMALL[2:], '--embeddings', vectors, '--save', folder)
    assert (status, errors) == (0, '') and 'out-of-vocabulary words get vectors from ' in output
    return folder


def test_ngrams_of_runs_a_run_keeps_its_ngrams(run, vectors):
    config, names = SavedRun.open(run).config, json.loads((run / 'vocab.json').read_text())
    assert config['options']['ngrams'] is True and {'anu', 'an>', 'nu>'} <= {*names['ngrams']}
    found, table = learn({line.split()[0]: np.array(line.split()[1:], np.float32)
                          for line in vectors.read_text().splitlines()})
    saved = records.read_tensors(run / 'ngrams.ckpt')['ngram_table']
    assert sorted(found) == sorted(names['ngrams'])
    order = [0, *(1 + found.index(ngram) for ngram in names['ngrams'])]
    assert saved == pytest.approx(table[order], abs=1e-4)


def test_ngrams_of_runs_what_is_scored_is_what_is_tagged(run, corpora):
    """The test score of the training agrees with the accuracy of the tags that the loaded run predicts.

    So new words in test have their n-gram vectors in both.
    """
    sentences = load({'train': corpora / 'train.tsv', 'test': corpora / 'test.tsv'}, 'BIO', (0, -1)).parts['test']
    found = Tagger.load(run).tag([sentence.tokens for sentence in sentences])
    right = sum(tag == gold for tagged, sentence in zip(found, sentences)
                for tag, gold in zip(tagged.tags, sentence.tags))
    scores = json.loads((run / 'scores.json').read_text())
    assert scores['test']['accuracy'] == pytest.approx(right / sum(len(sentence.tokens) for sentence in sentences))


def test_ngrams_of_runs_resumed_with_the_table_of_the_run(run, corpora, vectors, tmp_path):
    again = shutil.copytree(run, tmp_path / 'run')
    options = SavedRun.open(again).options_with(save=str(again))
    went_on = course.resume(again, options, StopAt(1))
    went_on.directory.release()
    table = records.read_tensors(run / 'ngrams.ckpt')['ngram_table']
    assert went_on.network.ngram_table.asnumpy().tobytes() == table.tobytes()


def test_ngrams_of_runs_begun_with_a_run_that_has_ngrams(run, corpora, tmp_path):
    """New words begin with the vector composed from the n-grams of the base run.

    New words without known n-grams begin with the vector of the unknown word.
    """
    (tmp_path / 'train.tsv').write_text('yanux\tB-PER\nqqq\tI-PER\n\nto\tO\n\n')
    arguments = ['--init', str(run), '--device', 'CPU', '--save', str(tmp_path / 'run')]
    begun = course.start(options_of([*files(corpora, train=tmp_path / 'train.tsv'), *arguments]), StopAt(1))
    begun.directory.release()
    names, table = begun.learner.vocabulary, begun.network.word_table.asnumpy()
    made, known = composed(begun.network.ngram_table.asnumpy(), names.ngram_ids(['yanux', 'qqq']))
    assert known.tolist() == [True, False] and 'yanux' in names.words and 'qqq' in names.words
    assert table[names.word_id('yanux')] == pytest.approx(made[0])
    before = records.read_tensors(run / 'weights.ckpt')['word_table']
    assert (table[names.word_id('qqq')] == before[UNKNOWN]).all()
    assert (begun.folder / 'ngrams.ckpt').read_bytes() == (run / 'ngrams.ckpt').read_bytes()
