"""The effect of options on the steps of a training, compared with simple arithmetic.

A test also checks that each option of a command is used by some test.
"""

import argparse
import re

from ms_crf.cli import compare, export, infer, train
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course
from ms_crf.training.watchers import Stopped

import numpy as np
import pytest

from support.paths import ROOT
from support.tensors import close
from support.trainings import SMALL, StopAt, files, options_of

OPTIONS = ['--scheme', 'BIOES', '--no-constraints', '--char-length', '4', '--dropout-embedding', '0.25',
           '--dropout-between', '0.75', '--dropout-kind', 'free', '--unknown', '1e9', '--optimizer', 'sgd',
           '--momentum', '0', '--weight-decay', '0.5', '--schedule', 'inverse', '--decay', '2', '--learning-rate',
           '0.1', '--word-rate', '0', '--clip', '1e-9']
STEPS = 5                      # an epoch has six steps


@pytest.fixture(scope='module')
def stopped(corpora, tmp_path_factory):
    """(run, weights before the first step, inputs of each step) of a training with all `OPTIONS`."""
    options = options_of([*files(corpora), *SMALL, *OPTIONS, '--save',
                                str(tmp_path_factory.mktemp('options') / 'run')])
    run, given = course.start(options, StopAt(STEPS)), []
    before, step = records.as_arrays(run.network.trainable_params()), run.step

    def recorded(*tensors):
        given.append([tensor.asnumpy() for tensor in tensors])
        return step(*tensors)

    run.step = recorded
    with pytest.raises(Stopped):
        run.run()
    assert run.steps == len(given) == STEPS
    return run, before, given


@pytest.mark.slow
def test_options_at_work_rates_fall_and_weights_decay(stopped):
    """The learning rate and the weight decay of each step agree with their formulas.

    Gradients are clipped to almost 0. So each step only multiplies matrices by 1 - rate * decay.
    """
    run, before, given = stopped
    rates = [0.1 / (1 + 2 * step / run.steps_an_epoch) for step in range(STEPS)]
    close([now[0] for now, *_ in given], rates)
    after = records.as_arrays(run.network.trainable_params())
    for name, array in before.items():
        shrinks = array.ndim > 1 and name != 'word_table' and not name.startswith('head.')
        close(after[name], array * np.prod([1 - 0.5 * rate for rate in rates]) if shrinks else array)
    assert after['word_table'].tobytes() == before['word_table'].tobytes()


@pytest.mark.slow
def test_options_at_work_each_place_loses_its_own_share(stopped):
    for *_, at_input, between in stopped[2]:
        for factors, rate in ((at_input, 0.25), (between, 0.75)):
            np.testing.assert_allclose(np.unique(factors), [0, 1 / (1 - rate)], rtol=1e-6)
            assert (factors[0] != factors[1]).any()
    for position, rate in ((-2, 0.25), (-1, 0.75)):
        dropped = np.mean([(arrays[position] == 0).mean() for arrays in stopped[2]])
        assert dropped == pytest.approx(rate, abs=0.1)


@pytest.mark.slow
def test_options_at_work_words_become_unknown_and_spellings_are_cut(stopped):
    run, _, given = stopped
    for _, words, _, long_spellings, *_ in given:
        assert set(words) <= {0, 1}                              # padding and the unknown word
        assert long_spellings.shape[1] == 4


@pytest.mark.slow
def test_options_at_work_tags_are_those_of_the_scheme_without_constraints(stopped):
    run, _, _ = stopped
    assert sorted(run.learner.vocabulary.tags) == ['B-PER', 'E-PER', 'I-PER', 'O', 'S-PER']
    assert 'constraints=None' in repr(run.network.head)


def test_options_at_work_a_rate_rises_over_the_epochs_that_are_named(corpora, tmp_path):
    options = options_of([*files(corpora), *SMALL, '--warmup', '1.5', '--save', str(tmp_path / 'run')])
    run = course.start(options, StopAt(1))
    run.directory.release()
    assert run.epoch_settings.warmup == 1.5


@pytest.mark.parametrize('named,schemes', [
    ([], ('BIOES', 'BIO')), (['--scheme', 'BIO'], ('BIO', 'BIO')), (['--scheme', 'BIOES'], ('BIOES', 'BIOES')),
    (['--no-constraints'], ('BIO', 'BIO')), (['--head', 'softmax'], ('BIO', 'BIO'))])
def test_options_at_work_a_constrained_chain_learns_bio_as_bioes(corpora, tmp_path, named, schemes):
    small = [text for text in SMALL if text not in ('--scheme', 'BIO')]
    run = course.start(options_of([*files(corpora), *small, *named, '--save', str(tmp_path / 'run')]), StopAt(1))
    run.directory.release()
    config, vocabulary = SavedRun.open(tmp_path / 'run').config, SavedRun.open(tmp_path / 'run').vocabulary_record
    assert (config['scheme'], config['written_scheme'], config['found_scheme']) == (*schemes, 'BIO')
    assert ('S-PER' in vocabulary['tags']) == (schemes[0] == 'BIOES')


def test_options_at_work_text_of_characters_is_learned_with_bigrams(tmp_path):
    """For a text of characters, a run uses bigrams and no character network by default.

    Options override this, and the run stores both choices.
    """
    rows = {'中': 'B', '国': 'E', '人': 'S', '好': 'S'}
    texts = ['中国人好', '人中国', '好中国人', '中国好人']
    text = '\n'.join(''.join(f'{one}\t{rows[one]}\n' for one in sentence) for sentence in texts)
    file = tmp_path / 'all.tsv'
    file.write_text(text, encoding='utf-8')
    of_parts = [text for part in ('train', 'dev') for text in (f'--{part}', str(file))]

    def learned(name, *named):
        save = tmp_path / name
        size = ['--word-dim', '4', '--hidden', '4', '--batch-size', '4', '--epochs', '1', '--device', 'CPU']
        run = course.start(options_of([*of_parts, *size, *named, '--save', str(save)]), StopAt(1))
        run.directory.release()
        options, vocabulary = SavedRun.open(save).config['options'], SavedRun.open(save).vocabulary_record
        return (options['char'], options['bigrams']), vocabulary.get('bigrams'), run.network.word_table.shape

    often = [' 中', '中 国', '国 人', '人 ']                          # those that occur twice or more
    chosen, bigrams, shape = learned('auto')
    assert chosen == ('none', True) and sorted(bigrams) == sorted(often) and shape == (2 + 4 + 1 + len(often), 4)
    assert learned('without', '--no-bigrams', '--char', 'cnn', '--char-dim', '2', '--char-width', '2') == (
        ('cnn', False), None, (2 + 4, 4))


@pytest.mark.parametrize('named,rate', [([], 0.3), (['--word-rate', '1'], 1.0)])
def test_options_at_work_words_with_vectors_learn_more_slowly(tmp_path, corpora, named, rate):
    """With `--embeddings` the word table has a smaller learning rate factor by default; the run stores the factor.

    Without `--embeddings` the factor is 1.
    """
    vectors = tmp_path / 'vectors.txt'
    vectors.write_text('to 1 2\nof 3 4\n')
    rates = []
    for given in (['--embeddings', str(vectors)], ['--word-dim', '2']):
        save = tmp_path / f'run{len(rates)}'
        size = ['--hidden', '4', '--char', 'none', '--epochs', '1', '--device', 'CPU']
        run = course.start(options_of([*files(corpora), *size, *given, *named, '--save', str(save)]), StopAt(1))
        run.directory.release()
        rates.append(SavedRun.open(save).config['options']['word_rate'])
        assert run.optimizer.row_rate == rates[-1]
    assert rates == [rate, 1.0]


def shown(command):
    """The names of each option in the help of a command: a list of names for each option."""
    return [action.option_strings for action in command.parser()._actions
            if action.option_strings and action.help != argparse.SUPPRESS]


#: options that no test uses, and the reason
UNTRIED: dict[str, str] = {}


@pytest.mark.parametrize('command', [train, infer, export, compare])
def test_options_at_work_every_option_in_help_is_used_by_a_test(command):
    words = set()
    for path in (ROOT / 'tests').rglob('*.py'):
        words |= set(re.findall(r'(?<![\w-])--?[a-z][a-z-]*', path.read_text(encoding='utf-8')))
    options = shown(command)
    assert len(options) > 5
    assert [names for names in options if not {*names} & words and not {*names} & {*UNTRIED}] == []
