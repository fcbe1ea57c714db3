"""Fine-tuning with `--init` of runs that use a pretrained encoder."""

import io
import shutil

from ms_crf import Tagger
from ms_crf.cli import train
from ms_crf.models.learning import tags_of
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course

import numpy as np
import pytest

from support.encoders import arguments, make_folder, tensors
from support.trainings import files, options_of

pytestmark = pytest.mark.slow
STEPS = ['--batch-size', '4', '--epochs', '1', '--learning-rate', '0.05', '--average', '0.9', '--device', 'CPU']
SENTENCES = [['to', 'Xan', 'in', 'Yel'], ['unknown'], ['Xel', 'Yor', 'of']]


@pytest.fixture(scope='module')
def bases(corpora, encoder, tmp_path_factory):
    """The folder of two runs of one epoch: 'frozen' has a frozen encoder, 'tuned' has a fine-tuned encoder."""
    folder = tmp_path_factory.mktemp('bases')
    for name, rate in (('frozen', '0'), ('tuned', '0.01')):
        assert train.main(arguments(corpora, encoder, folder / name, '--epochs', '1', '--encoder-lr', rate)) == 0
    return folder


@pytest.fixture
def places(tmp_path):
    """Options that name a corpus with persons, as in the base runs, and with places, which are new."""
    (tmp_path / 'train.tsv').write_text(6 * 'Xan\tB-PER\nin\tO\nYel\tB-LOC\n\n')
    return ['--train', str(tmp_path / 'train.tsv'), '--dev', str(tmp_path / 'train.tsv')]


def begun(*named):
    run = course.start(options_of([*map(str, named)]), train.TrainingTerminal(io.StringIO()))
    run.directory.release()
    return run


@pytest.mark.parametrize('name', ['frozen', 'tuned'])
def test_encoder_init_before_its_first_step_it_tags_as_its_base_does(bases, corpora, tmp_path, name):
    run = begun(*files(corpora), *STEPS, '--init', bases / name, '--save', tmp_path / 'run')
    assert run.options.encoder_lr == (0.01 if name == 'tuned' else 0) and run.options.encoder_lstm == 6
    expected = [tagged.tags for tagged in Tagger.load(bases / name).tag(SENTENCES)]
    assert tags_of(run.decoder, run.decoder.encode(SENTENCES)) == expected
    before, now = (records.read_tensors(folder / file) for folder, file in (
        (bases / name, 'weights.ckpt'), (tmp_path / 'run', 'state.ckpt')))
    assert len(before) > 10 and all(array.tobytes() == now[key].tobytes() for key, array in before.items())


def test_encoder_init_tags_are_taken_by_name_the_lstm_stays_and_the_base_may_go(bases, places, tmp_path, capfd):
    base = tmp_path / 'base'
    shutil.copytree(bases / 'frozen', base)
    before = records.read_tensors(base / 'weights.ckpt')
    run = begun(*places, *STEPS, '--init', base, '--freeze', 'lstm', '--save', tmp_path / 'run')
    assert f'initialised from {base}: the encoder, 3 of 5 tags (new: B-LOC, I-LOC); frozen: lstm' in (
        run.watcher.output.getvalue().splitlines())
    shutil.rmtree(base)
    assert train.main(['--resume', str(tmp_path / 'run'), '--device', 'CPU']) == 0
    state = records.read_tensors(tmp_path / 'run' / 'state.ckpt')
    lstm = [name for name in before if name.startswith('layers.')]
    assert len(lstm) == 8 and all(state[name].tobytes() == before[name].tobytes() for name in lstm)
    assert not any(f'first.{name}' in state for name in lstm)
    old, new = (SavedRun.open(folder).vocabulary_record['tags'] for folder in (bases / 'frozen', tmp_path / 'run'))
    start = run.network.projection.weight.asnumpy()
    for row, tag in enumerate(new):
        if tag in old:
            assert (start[row] == before['projection.weight'][old.index(tag)]).all()
    assert not np.array_equal(state['projection.weight'], start)
    assert [len(tagged.tags) for tagged in Tagger.load(tmp_path / 'run').tag(SENTENCES)] == [4, 1, 3]


def test_encoder_init_the_encoder_is_that_of_the_base_under_whatever_name(bases, encoder, places, tmp_path, capfd):
    named = [*places, *STEPS, '--init', str(bases / 'frozen'), '--save', str(tmp_path / 'run')]
    assert options_of([*named, '--encoder', str(encoder)]).encoder == str(encoder)
    other = make_folder(tmp_path / 'other', arrays=tensors(seed=3))
    frozen, tuned = bases / 'frozen', bases / 'tuned'
    for base, given, message in (
            (frozen, ['--encoder', other],
             f"--encoder must be {frozen}/encoder as in --init {frozen}, got {str(other)!r}; omit it"),
            (frozen, ['--encoder-lstm', 8],
             f'--encoder-lstm must be 6 as in --init {frozen}, got 8; omit it'),
            (frozen, ['--freeze', 'words'], "--freeze must name some of lstm, got 'words'"),
            (tuned, ['--encoder-lr', 0],
             f'--encoder-lr must be above 0, because --init {tuned} has a fine-tuned encoder, got 0'),
            (frozen, ['--encoder-cache', frozen / 'kept'],
             f'--encoder-cache must not be in the run of --init, got {frozen}/kept; choose another folder')):
        assert train.main([*places, *STEPS, '--init', str(base), *map(str, given), '--save',
                           str(tmp_path / 'run')]) == 2
        assert capfd.readouterr() == ('', f'train.py: {message}\n') and not (tmp_path / 'run').exists()


def test_encoder_init_an_encoder_that_is_damaged_is_no_beginning(bases, places, tmp_path, capfd):
    base = tmp_path / 'base'
    shutil.copytree(bases / 'frozen', base)
    weights = base / 'encoder' / 'model.safetensors'
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert train.main([*places, *STEPS, '--init', str(base), '--save', str(tmp_path / 'run')]) == 2
    error = capfd.readouterr().err
    assert error.startswith(f'train.py: {base}/encoder: expected the encoder that {base} was trained with, got another')
    assert error.count('\n') == 1 and not (tmp_path / 'run').exists()
