"""Fine-tuning with `--init`: the weights that are copied, frozen weights, and invalid base runs and options."""

import json
import shutil

from ms_crf import Tagger
from ms_crf.cli import train
from ms_crf.models.learning import tags_of
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course
from ms_crf.training.watchers import Stopped

import pytest

from support.paths import ROOT
from support.runs import make_run
from support.trainings import StopAt, close_to, files, options_of, plugins_forgotten, printed, train_py

slow = pytest.mark.slow
pytestmark = pytest.mark.usefixtures('steps_compiled_once')
STEPS = ['--batch-size', '4', '--learning-rate', '0.05', '--average', '0.9', '--device', 'CPU']
SENTENCES = [['Xan', 'Yel', 'lives', 'in', 'Zürich'], ['to', 'TO', 'Bonn'], ['by', 'Xel', 'Yor', 'of', 'Zürich', '7']]
TAGS = ['B-PER I-PER O O B-LOC', 'O O B-LOC', 'O B-PER I-PER O B-LOC O']


@pytest.fixture(scope='module')
def texts(tmp_path_factory):
    """Options that name a corpus with persons, as in the base run, and places; half of its words are new."""
    folder = tmp_path_factory.mktemp('texts')
    rows = [[f'{word}\t{tag}' for word, tag in zip(words, tags.split())] for words, tags in zip(SENTENCES, TAGS)]
    text = ''.join('\n'.join(sentence) + '\n\n' for sentence in rows)
    (folder / 'train.tsv').write_text(4 * text, encoding='utf-8')
    (folder / 'dev.tsv').write_text(text, encoding='utf-8')
    return ['--train', str(folder / 'train.tsv'), '--dev', str(folder / 'dev.tsv')]


def contents(folder):
    """The name, contents and modification time of each file of a folder."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def begun(arguments, watcher=None):
    """A training that has started, but makes no step."""
    run = course.start(options_of(arguments), watcher or StopAt(1))
    run.directory.release()
    return run


@slow
def test_init_before_its_first_step_it_tags_as_its_base_does(undisturbed, corpora, tmp_path):
    """Before its first step the new network predicts the same tags as its base run.

    This includes new words and characters, for which the new network has rows.
    """
    (tmp_path / 'train.tsv').write_text('Xan\tB-PER\nünknown\tI-PER\n\nto\tO\nZap\tB-PER\nYelx\tI-PER\n\n')
    run = begun([*files(corpora, train=tmp_path / 'train.tsv'), *STEPS, '--init', str(undisturbed[0]), '--save',
                 str(tmp_path / 'run')])
    sentences = [['Xan', 'ünknown', 'to'], ['of', 'Zap', 'Yelx'], ['ü', 'Xor', 'Yan', 'Zap'], ['XAN', 'YEL']]
    assert {'ünknown', 'Zap'} <= {*run.learner.vocabulary.words} and 'ü' in run.learner.vocabulary.characters
    expected = [tagged.tags for tagged in Tagger.load(undisturbed[0]).tag(sentences)]
    assert tags_of(run.decoder, run.decoder.encode(sentences)) == expected
    assert {tag for tags in expected for tag in tags} == {'O', 'B-PER', 'I-PER'}


def test_init_what_both_have_is_taken_by_its_name_and_the_rest_is_fresh(undisturbed, texts, tmp_path):
    """Weights of known words, characters and tags are copied by name; weights of new tags are random.

    The base run has persons in BIO; the new run has persons and places in BIOES.
    """
    base, said = undisturbed[0], StopAt(1)
    weights, names = (records.read_tensors(base / 'weights.ckpt'), json.loads((base / 'vocab.json').read_text()))
    run = begun([*texts, *STEPS, '--scheme', 'BIOES', '--init', str(base), '--save', str(tmp_path / 'run')], said)
    now, own = records.as_arrays(run.network.trainable_params()), run.learner.vocabulary
    assert own.words == [*names['words'], 'lives', 'Zürich', 'Bonn', '7']
    assert own.characters[:len(names['characters'])] == names['characters']
    for name, known in (('word_table', len(names['words'])), ('characters.table.weight', len(names['characters']))):
        assert (now[name][:2 + known] == weights[name]).all() and len(now[name]) > 2 + known
        assert (now[name][2 + known:] == weights[name][1]).all()           # new rows: the unknown word or character
    for name, array in weights.items():
        if name.startswith('layers.') or name == 'characters.filters.weight':
            assert now[name].tobytes() == array.tobytes()
    shared = {'O', 'B-PER', 'I-PER'}
    assert {*names['tags']} == shared and {*own.tags} == shared | {
        'E-PER', 'S-PER', 'B-LOC', 'I-LOC', 'E-LOC', 'S-LOC'}
    for row, tag in enumerate(own.tags):
        before = names['tags'].index(tag) if tag in shared else None
        for name in ('projection.weight', 'projection.bias', 'head.start_transitions', 'head.end_transitions'):
            assert before is None or (now[name][row] == weights[name][before]).all()
        if before is None:
            assert not (now['projection.weight'][row] == weights['projection.weight']).all(1).any()
        for column, other in enumerate(own.tags):
            value = now['head.transitions'][row, column]
            if tag in shared and other in shared:
                assert value == weights['head.transitions'][before, names['tags'].index(other)]
            else:
                assert abs(value) <= 0.1                                   # random, as in a new CRF
    assert (f'initialised from {base}: {len(names["words"])} words (plus 4 new), {len(names["characters"])} '
            f'characters (plus {len(own.characters) - len(names["characters"])} new), 3 of 9 tags (new: B-LOC, I-LOC, '
            'E-LOC, S-LOC and 2 others)') in said.output.getvalue().splitlines()


def test_init_new_words_have_the_vectors_of_the_file_and_known_ones_keep_theirs(undisturbed, texts, tmp_path):
    base, vectors = undisturbed[0], {'bonn': [6, 5, 4, 3, 2, 1], 'to': [9] * 6, 'Zürich': [1, 2, 3, 4, 5, 6]}
    (tmp_path / 'vectors.txt').write_text(''.join(f'{word} {" ".join(map(str, numbers))}\n'
                                                  for word, numbers in vectors.items()), encoding='utf-8')
    run = begun([*texts, *STEPS, '--init', str(base), '--embeddings', str(tmp_path / 'vectors.txt'), '--save',
                 str(tmp_path / 'run')])
    table, words = run.network.word_table.asnumpy(), run.learner.vocabulary
    before = records.read_tensors(base / 'weights.ckpt')['word_table']
    assert words.word_id('Bonn') == words.word_id('bonn') and 'Bonn' not in words.words
    for word in ('bonn', 'Zürich'):
        assert table[words.word_id(word)].tolist() == vectors[word]
    assert (table[:len(before)] == before).all() and (table[words.word_id('lives')] == before[1]).all()


def test_init_bigrams_keep_their_vectors_behind_words_that_are_more(texts, tmp_path):
    base = make_run(tmp_path / 'base', bigrams=True)
    before, names = records.read_tensors(base / 'weights.ckpt')['word_table'], json.loads(
        (base / 'vocab.json').read_text())
    run = begun([*texts, *STEPS, '--init', str(base), '--save', str(tmp_path / 'run')])
    table, own = run.network.word_table.asnumpy(), run.learner.vocabulary
    assert own.bigrams[:len(names['bigrams'])] == names['bigrams'] and len(own.words) > len(names['words'])
    assert {'lives in', ' to', 'Bonn '} <= {*own.bigrams} - {*names['bigrams']}
    words, bigrams = 2 + len(names['words']), 1 + len(names['bigrams'])
    assert len(before) == words + bigrams and len(table) == 2 + len(own.words) + 1 + len(own.bigrams)
    first = 2 + len(own.words)
    assert (table[:words] == before[:words]).all() and (table[words:first] == before[1]).all()
    assert (table[first:first + bigrams] == before[words:]).all()
    assert (table[first + bigrams:] == before[words]).all()              # new rows: the unknown bigram
    assert SavedRun.open(tmp_path / 'run').config['init']['bigrams'] == len(names['bigrams'])


@slow
@pytest.mark.parametrize('frozen', ['words,characters,lstm', 'characters'])
def test_init_what_is_frozen_does_not_change_by_a_bit(undisturbed, texts, tmp_path, frozen):
    """Frozen weights stay exactly the same in the network and in the saved average; all other weights change.

    Frozen weights have no moments in the optimizer.
    """
    begins = {'words': 'word_table', 'characters': 'characters.', 'lstm': 'layers.'}
    names = tuple(begins[part] for part in frozen.split(','))
    run = course.start(options_of([*texts, *STEPS, '--epochs', '2', '--init', str(undisturbed[0]), '--freeze', frozen,
                                  '--save', str(tmp_path / 'run')]), StopAt(-1))
    before = records.as_arrays(run.network.trainable_params())
    run.run()
    state, saved = (records.read_tensors(tmp_path / 'run' / name) for name in ('state.ckpt', 'weights.ckpt'))
    for name, array in before.items():
        for after in (state[name], state[f'average.{name}'], saved[name]):
            assert (after.tobytes() == array.tobytes()) == name.startswith(names), name
    weights = {weight.name for weight in run.optimizer.weights}
    assert weights == {name for name in before if not name.startswith((*names, 'word_table'))}
    moves = weights if 'words' in frozen else weights | {'word_table'}
    assert {name.removeprefix('first.') for name in state if name.startswith('first.')} == moves


@slow
def test_init_it_goes_on_and_tags_without_its_base(undisturbed, texts, tmp_path):
    """The run resumes and tags after its base run was deleted.

    Trainings stopped within an epoch, or before the first step, end with the files of an uninterrupted training.
    """
    base, whole = tmp_path / 'base', tmp_path / 'whole'
    shutil.copytree(undisturbed[0], base)
    before = contents(base)
    arguments = [*texts, *STEPS, '--epochs', '2', '--init', str(base), '--freeze', 'words']
    assert train.main([*arguments, '--save', str(whole)]) == 0
    begun([*arguments, '--save', str(tmp_path / 'unmoved')])
    run = course.start(options_of([*arguments, '--save', str(tmp_path / 'stopped')]), StopAt(2))
    with pytest.raises(Stopped):
        run.run()
    assert contents(base) == before
    shutil.rmtree(base)
    for name in ('unmoved', 'stopped'):
        assert train.main(['--resume', str(tmp_path / name), '--device', 'CPU']) == 0
        for file in ('weights.ckpt', 'state.ckpt'):
            assert (tmp_path / name / file).read_bytes() == (whole / file).read_bytes()
    config = json.loads((whole / 'config.json').read_text())
    assert config['options']['init'] == str(base) and config['init']['words'] > 0
    assert config['init']['sha256'] == SavedRun.open(undisturbed[0]).digest
    tagged = [sentence.tags for sentence in Tagger.load(whole).tag(SENTENCES)]
    begun([*texts, *STEPS, '--init', str(whole), '--save', str(tmp_path / 'third')])
    assert [len(tags) for tags in tagged] == [5, 3, 6]


def test_init_without_the_weights_it_began_with_it_does_not_go_on(undisturbed, texts, tmp_path, capfd):
    begun([*texts, *STEPS, '--init', str(undisturbed[0]), '--save', str(tmp_path / 'run')])
    (tmp_path / 'run' / 'state.ckpt').unlink()
    assert train.main(['--resume', str(tmp_path / 'run'), '--device', 'CPU']) == 2
    error = capfd.readouterr().err
    assert error == (f'train.py: {tmp_path}/run/state.ckpt: no such file; it contains the weights from the run of '
                     '--init, and the training cannot resume without it; restore the file, or start again\n')


@slow
def test_init_two_workers_learn_what_one_learns(undisturbed, texts, tmp_path):
    arguments = [*texts, *STEPS, '--epochs', '2', '--init', undisturbed[0], '--freeze', 'words']
    together = train_py(*arguments, '--workers', 2, '--save', tmp_path / '2')
    status, output, errors = printed(train.main, *arguments, '--save', tmp_path / '1')
    assert (status, errors) == (0, '') and output.count('initialised from ') == 1
    output, errors = together.communicate(timeout=200)
    assert (together.returncode, errors) == (0, '') and output.count('initialised from ') == 1
    close_to(tmp_path / '1', tmp_path / '2', 6)
    one, two = (records.read_tensors(tmp_path / count / 'state.ckpt')['word_table'] for count in '12')
    assert one.tobytes() == two.tobytes()


CONTRADICTIONS = [
    ('--hidden 8', "--hidden must be 6 as in --init {base}, got 8; omit it"),
    ('--layers 2', "--layers must be 1 as in --init {base}, got 2; omit it"),
    ('--char lstm', "--char must be cnn as in --init {base}, got 'lstm'; omit it"),
    ('--char-length 5', "--char-length must be 16 as in --init {base}, got 5; omit it"),
    ('--word-dim 100', "--word-dim must be 6 as in --init {base}, got 100; omit it"),
    ('--head softmax', "--head must be crf as in --init {base}, got 'softmax'; omit it"),
    ('--model hmm', "--model must be bilstm as in --init {base}, got 'hmm'; omit it"),
    ('--encoder x', "--encoder must be none as in --init {base}, got 'x'; omit it"),
    ('--freeze words,charcters', "--freeze must name some of words, characters, lstm, got 'charcters'; did you mean "
                                 'characters?'),
    ('--freeze words,', "--freeze must name some of words, characters, lstm, got ''"),
    ('--freeze words --word-rate 0.1', '--word-rate has no effect with --freeze words; omit it'),
    ('--save {base}', '--save must not be the run of --init or a folder in it, got {base}; choose another folder'),
    ('--save {base}/next --overwrite', '--save must not be the run of --init or a folder in it, got {base}/next; '
                                       'choose another folder'),
    ('--embeddings {narrow}', '{narrow}: expected vectors of 6 numbers as in {base}, got 2'),
]


@pytest.fixture(scope='module')
def random_run(tmp_path_factory):
    """A run over words, with random weights."""
    return make_run(tmp_path_factory.mktemp('random') / 'base')


def refused(arguments, capfd, folder):
    """Returns the one-line error of a training that cannot start, and checks that it creates no files."""
    before = {*folder.rglob('*')}
    arguments = [*arguments, *([] if '--save' in arguments else ['--save', str(folder / 'run')])]
    assert train.main([*arguments, '--device', 'CPU']) == 2
    error = capfd.readouterr().err
    assert error.startswith('train.py: ') and error.count('\n') == 1 and {*folder.rglob('*')} == before
    return error.removeprefix('train.py: ').rstrip('\n')


@pytest.mark.parametrize('text,message', CONTRADICTIONS)
def test_init_an_option_that_contradicts_the_base(random_run, texts, tmp_path, capfd, text, message):
    (tmp_path / 'narrow.txt').write_text('to 1 2\nBonn 3 4\n')
    names = {'base': random_run, 'narrow': tmp_path / 'narrow.txt'}
    before = contents(random_run)
    given = [word.format(**names) for word in text.split()]
    assert refused([*texts, '--init', str(random_run), *given], capfd, tmp_path) == message.format(**names)
    assert contents(random_run) == before


def test_init_an_option_that_the_base_has_as_well_may_be_named(random_run, texts, tmp_path):
    options = options_of([*texts, '--init', str(random_run), '--hidden', '6', '--word-dim', '6', '--char', 'cnn',
                          '--save', str(tmp_path / 'run')])
    assert (options.hidden, options.word_dim, options.char_dim, options.char_width) == (6, 6, 3, 4)


def test_init_the_draft_of_a_run_to_be_replaced_is_no_base(random_run, texts, tmp_path, capfd):
    """The temporary folder of the run that `--save` replaces cannot be the base run.

    The training would delete this folder when it starts.
    """
    shutil.copytree(random_run, tmp_path / '.mine.new')
    arguments = [*texts, '--init', str(tmp_path / '.mine.new'), '--save', str(tmp_path / 'mine')]
    assert refused(arguments, capfd, tmp_path).startswith('--save must not be the run of --init')


def test_init_a_network_without_characters_has_none_to_freeze(texts, tmp_path, capfd):
    base = make_run(tmp_path / 'base', char='none')
    assert refused([*texts, '--init', str(base), '--freeze', 'characters'], capfd, tmp_path) == (
        "--freeze must name some of words, lstm, got 'characters'")


def test_init_only_what_a_base_has_can_be_frozen(texts, tmp_path, capfd):
    assert refused([*texts, '--freeze', 'words'], capfd, tmp_path) == (
        '--freeze has no effect without --init; omit it')


def test_init_a_base_that_is_missing_damaged_or_not_done(random_run, texts, tmp_path, capfd):
    arguments = [*texts, '--init', str(tmp_path / 'base')]
    assert refused(arguments, capfd, tmp_path) == (
        f'{tmp_path}/base/config.json: no such file; expected a run made by training')
    shutil.copytree(random_run, tmp_path / 'base')
    weights = tmp_path / 'base' / 'weights.ckpt'
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    assert refused(arguments, capfd, tmp_path).startswith(
        f'{weights}: expected the file that training wrote, got an edited or damaged one; restore it')
    weights.unlink()
    assert refused(arguments, capfd, tmp_path) == (
        f'{weights}: no such file; expected a run whose training has finished an epoch')


def test_init_a_kind_that_is_not_trained_in_steps_is_no_base(hmm, texts, tmp_path, capfd):
    assert refused([*texts, '--init', str(hmm)], capfd, tmp_path) == (
        f'{hmm}: expected a run of a model type that supports --init, got a run of hmm')


@slow
def test_init_a_kind_of_ones_own_says_whether_it_can_be_begun_with(corpora, texts, tmp_path):
    own = ['--plugin', ROOT / 'examples/own_model.py']
    with plugins_forgotten():
        status, _, errors = printed(train.main, *own, '--model', 'mine', *files(corpora), *STEPS, '--epochs', 1,
                                    '--save', tmp_path / 'own')
    assert (status, errors) == (0, '')
    for arguments, message in (
            (['--init', tmp_path / 'own'], f'{tmp_path}/own: expected a run of a model type that supports --init, '
                                           'got a run of mine'),
            (['--model', 'mine', '--freeze', 'words'], '--freeze has no effect with --model mine; omit it')):
        with plugins_forgotten():
            status, _, errors = printed(train.main, *own, *texts, *arguments, '--save', tmp_path / 'run')
        assert (status, errors) == (2, f'train.py: {message}\n')


GROWING = """
import sys
sys.path.insert(0, {examples!r})

from ms_crf.models.base import register
from ms_crf.models.inheritance import put_weights, read_base
from ms_crf.runs import records

from own_model import Mine, Network


class Parted(Network):
    def parts(self):
        return {'convolution': self.convolution.trainable_params()}


@register
class Shapes(Mine):
    name, options = 'shapes', ('word_dim', 'hidden', 'init', 'freeze')

    @classmethod
    def known(cls, sentences, options):
        return {}                      # of words only the shapes count, so that no text needs another size

    @classmethod
    def network(cls, known, num_tags, options, constraints):
        return Parted(2, num_tags, options, constraints)

    @classmethod
    def shape(cls, run, given):
        return {name: getattr(run.options, name) for name in ('model', 'word_dim', 'hidden', 'head')}

    @classmethod
    def parts(cls, options):
        return ('convolution',)

    @classmethod
    def learner(cls, options, corpora, watcher, run=None):
        learner = super().learner(options, corpora, watcher, run)
        if options.init and run is None:
            tags, base = cls.load_network(read_base(cls, options.init))
            weights, make = records.as_arrays(base.trainable_params()), learner.network

            def network():
                made = make()
                put_weights(made, weights, tags.tags, learner.vocabulary.tags)
                return made
            learner.network = network
        return learner
"""


@slow
def test_init_a_kind_of_ones_own_can_be_begun_with(corpora, texts, tmp_path):
    (tmp_path / 'growing.py').write_text(GROWING.replace('{examples!r}', repr(str(ROOT / 'examples'))))
    base, run = tmp_path / 'base', tmp_path / 'run'
    for arguments in ([*files(corpora), '--model', 'shapes', '--hidden', 8, '--save', base],
                      [*texts, '--init', base, '--freeze', 'convolution', '--save', run]):
        with plugins_forgotten():
            status, _, errors = printed(train.main, '--plugin', tmp_path / 'growing.py', *arguments, *STEPS, '--scheme',
                                        'BIO', '--epochs', 1)
        assert (status, errors) == (0, '')
    before, after = (records.read_tensors(folder / 'state.ckpt') for folder in (base, run))
    weights = records.read_tensors(base / 'weights.ckpt')
    assert after['convolution.weight'].shape == (8, before['shapes.embedding_table'].shape[1] * 3 + 300)
    for name in ('convolution.weight', 'convolution.bias'):
        assert after[name].tobytes() == weights[name].tobytes() and f'first.{name}' not in after
    assert after['projection.weight'].shape == (5, 8) and before['projection.weight'].shape == (3, 8)


def test_init_options_in_a_file_may_name_the_base(random_run, texts, tmp_path):
    (tmp_path / 'options.json').write_text(json.dumps({'init': str(random_run), 'freeze': 'words, lstm'}))
    options = options_of([*texts, '--config', str(tmp_path / 'options.json'), '--save', str(tmp_path / 'run')])
    assert (options.init, options.frozen(), options.hidden) == (str(random_run), ['words', 'lstm'], 6)
