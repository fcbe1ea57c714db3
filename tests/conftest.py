"""Shared fixtures, the modes of MindSpore in which tests run, and the order of the tests."""

import subprocess
import sys

from ms_crf.cli import train
from ms_crf.native import custom, library
from ms_crf.training import trainer

import mindspore as ms
import pytest

from support.chains import MODES
from support.corpora import write_corpus
from support.paths import ROOT
from support.trainings import SMALL, SharedGraphs, files

pytest_plugins = ['support.suite']
#: The slowest test files, slowest first, so that all test processes end at about the same time.
FIRST = """
    training/test_train.py crf/test_crf.py models/test_encoder_runs.py bulk/test_tag_many.py crf/test_forbidden.py
    tagging/test_tagger.py crf/test_mixed_precision.py crf/test_numbers.py models/test_own_model.py
    tagging/test_sharing.py crf/test_second_derivatives.py crf/test_values.py cli/test_console.py
    experiments/test_compare.py cli/test_infer.py project/test_docs.py project/test_quickstart.py
    crf/test_nan.py models/test_graph_files.py
    project/test_fuzz.py project/test_examples.py project/test_wheel.py browser/test_highlighted_page.py
    server/test_answers.py server/test_network_served.py server/test_kinds_served.py server/test_server_page.py
    server/test_life.py training/test_loss_scale.py training/test_course.py crf/test_any_length.py crf/test_nbest.py
    crf/test_constraints.py crf/test_tutorial.py crf/test_transformations.py training/test_options_at_work.py
    nn/test_network.py
""".split()


def pytest_collection_modifyitems(items):
    """Removes modes that a test's mark `modes` does not contain, marks slow tests, and sorts the slowest files first.

    Slow are tests that compile graphs, tests in a browser, and tests with plain operators in PyNative mode that also
    run with the faster operators in C++. The mark `quick` makes an exception for its modes, or for all modes.
    """
    def mode_of(item):
        return item.callspec.params.get('compiled') if hasattr(item, 'callspec') else None

    def runs(item):
        only = item.get_closest_marker('modes')
        return mode_of(item) is None or only is None or mode_of(item) in only.args

    items[:] = filter(runs, items)
    both = {(item.path, item.originalname) for item in items if mode_of(item) == 'native pynative'}
    for item in items:
        mode, quick = mode_of(item), item.get_closest_marker('quick')
        slow = mode in ('graph', 'native graph') or mode == 'pynative' and (item.path, item.originalname) in both
        if slow and not (quick and mode in (quick.args or (mode,))) or 'browser' in item.fixturenames:
            item.add_marker('slow')
    place = {file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.nodeid.removeprefix('tests/').partition('::')[0], len(FIRST)))


def pytest_generate_tests(metafunc):
    """Parametrizes tests that use the fixture `compiled`: graph and PyNative mode.

    Tests of the layer and of cells run in both modes with plain operators, and with the operators in C++ if available.
    """
    if 'compiled' not in metafunc.fixturenames or any('compiled' in mark.args[0] for mark in
                                                      metafunc.definition.iter_markers('parametrize')):
        return
    modes = list(MODES)
    if both_ways(metafunc.definition.nodeid) and library.find().path is not None:
        modes += [f'native {mode}' for mode in MODES]
    metafunc.parametrize('compiled', modes, indirect=True)


def both_ways(nodeid):
    """Whether the tested code has both plain operators and operators in C++."""
    return '/crf/' in nodeid or '/nn/' in nodeid


@pytest.fixture
def compiled(request):
    """`ms.jit` in graph mode; in PyNative mode a function that returns its argument."""
    custom.use(request.param.startswith('native') or not both_ways(request.node.nodeid))
    yield ms.jit if request.param.endswith('graph') else lambda function: function
    custom.use(True)


@pytest.fixture(scope='session')
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp('corpora')
    for seed, (part, count) in enumerate((('train', 21), ('dev', 6), ('test', 6))):
        write_corpus(folder / f'{part}.tsv', count, seed)
    return folder


@pytest.fixture(scope='session')
def undisturbed(corpora):
    """The folder of an uninterrupted training in a new process, and the finished process with its output."""
    folder = corpora / 'undisturbed'
    result = subprocess.run([sys.executable, 'train.py', *files(corpora), *SMALL, '--save', str(folder)], cwd=ROOT,
                            capture_output=True, text=True, timeout=200)
    return folder, result


@pytest.fixture(scope='session')
def shared_graphs():
    return SharedGraphs()


@pytest.fixture(scope='module')
def steps_compiled_once(shared_graphs):
    """Trainings with equal networks share the compiled graphs of their steps. For files with many trainings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, 'make_step', shared_graphs.make_step)
        patch.setattr(trainer, 'make_average', shared_graphs.make_average)
        yield


@pytest.fixture(scope='session')
def encoder(tmp_path_factory):
    """The folder of a small encoder with random weights, in the layout of a pretrained encoder."""
    from support.encoders import make_folder
    folder = make_folder(tmp_path_factory.mktemp('encoders') / 'small')
    (folder / 'tokenizer_config.json').write_text('{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}')
    return folder


@pytest.fixture(scope='session')
def network_server(tmp_path_factory):
    """A run with a network, and a server with this run. All tests share it, because it takes seconds to start."""
    from support.runs import make_run
    from support.servers import serving
    run = make_run(tmp_path_factory.mktemp('network') / 'run')
    with serving('--run', run, '--splitter', 'blanks') as server:
        yield run, server


@pytest.fixture(scope='session')
def run_of(tmp_path_factory):
    """A function that returns a run with random weights, for a scheme and options. Each run is created once.

    Tests must not change these runs.
    """
    from support.runs import make_run
    folder, made = tmp_path_factory.mktemp('runs'), {}

    def run(scheme='BIO', **options):
        key = '-'.join([scheme, *(f'{name}={value}' for name, value in options.items())])
        if key not in made:
            made[key] = make_run(folder / key, scheme, **options)
        return made[key]
    return run


@pytest.fixture(scope='session')
def exported(tmp_path_factory):
    """A function that returns the exported graph of a run. An export takes seconds, so each graph is exported once.

    Tests must not change these files.
    """
    from ms_crf.models import mindir
    made = {}

    def graph(run, output='paths', static=None):
        key = (run, output, static)
        if key not in made:
            made[key] = tmp_path_factory.mktemp('exported') / 'a.mindir'
            mindir.export(run, made[key], output, static=static and list(static))
        return made[key]
    return graph


@pytest.fixture(scope='module')
def browser():
    """Headless Chromium, started once for each test file. `support.pages` has functions that use it."""
    from support.pages import chromium
    if chromium() is None:
        pytest.skip('Chromium is missing: apt-get install chromium')
    sync_api = pytest.importorskip('playwright.sync_api', reason='Playwright is missing: pip install playwright')
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium())
        yield started
        started.close()


@pytest.fixture(scope='module')
def run(corpora, tmp_path_factory):
    """The run of a hidden Markov model, shared by the tests of a file."""
    folder = tmp_path_factory.mktemp('counted') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


@pytest.fixture
def hmm(tmp_path, corpora):
    """A new run of a hidden Markov model, which trains within a hundredth of a second."""
    folder = tmp_path / 'run'
    assert train.main(['--model', 'hmm', *files(corpora), '--save', str(folder)]) == 0
    return folder
