"""What the tests share: the layer with given scores, running a function in either mode, a small training."""

import random
import subprocess
import sys
from pathlib import Path

from ms_crf import CRF
from ms_crf.cli import train
from ms_crf.native import custom, library
from ms_crf.runs.saving import saving

import mindspore as ms
import numpy as np
import pytest

pytest_plugins = ['support.suite']
ROOT = Path(__file__).resolve().parents[1]
SMALL = ['--word-dim', '6', '--hidden', '6', '--char-dim', '3', '--char-width', '4', '--batch-size', '4',
         '--epochs', '3', '--learning-rate', '0.05', '--average', '0.9', '--scheme', 'BIO', '--device', 'CPU']
NAMES = {'transitions': 'transitions', 'start': 'start_transitions', 'end': 'end_transitions'}

#: Tests that take more than some three seconds on one core, and files that compile many graphs, marked slow here:
#: files, tests, or tests with one of their parameters. What a change in between should be checked by stays out of it.
SLOW = """
    browser/test_highlighted_page.py::test_forty_types_are_readable
    browser/test_highlighted_page.py::test_the_page_of_names_is_sound
    crf/test_any_length.py
    crf/test_checked_values.py::test_a_mask_with_holes_gives_nan_in_a_graph
    crf/test_crf.py::test_cells_run_in_graph_mode
    crf/test_crf.py::test_methods_compile_one_by_one
    crf/test_distribution.py::test_one_exported_graph_serves_all_shapes
    crf/test_distribution.py::test_one_graph_learns_at_all_shapes
    crf/test_distribution.py::test_samples_are_the_same_in_both_modes_and_independent_of_each_other
    crf/test_forbidden.py
    crf/test_losses.py::test_compiled_once_for_all_lengths
    crf/test_mbr.py::test_one_exported_graph_for_all_shapes
    crf/test_mixed_precision.py
    crf/test_nan.py::test_nan_in_one_emission_is_seen[pynative-in blocks]
    crf/test_numbers.py
    crf/test_pair_emissions.py::test_one_exported_graph_serves_all_shapes
    crf/test_second_derivatives.py
    crf/test_transformations.py
    crf/test_tutorial.py::test_cell_runs_in_graph_mode
    crf/test_tutorial.py::test_two_sentences
    crf/test_values.py
    models/test_encoder.py::test_minilm_is_that_of_transformers
    models/test_encoder_runs.py
    models/test_graph_files.py::test_a_full_disk
    models/test_graph_files.py::test_a_graph_may_have_the_name_of_its_draft
    models/test_graph_files.py::test_interrupted_while_the_graph_is_compiled
    models/test_graph_files.py::test_links_and_modes_are_kept
    models/test_own_model.py
    server/test_kinds_served.py
    server/test_network_served.py
    server/test_server_page.py
    experiments/test_compare.py::test_a_comparison
    experiments/test_compare.py::test_a_run_that_fails_leaves_what_was_done_before
    experiments/test_compare.py::test_a_signal_ends_the_training_and_leaves_what_was_done_before
    experiments/test_compare.py::test_a_signal_while_a_run_is_measured
    cli/test_console.py::test_training_goes_on_when_its_output_is_full_or_closed
    cli/test_console.py::test_training_goes_on_when_nobody_reads_what_it_says
    base/test_device.py::test_tagging_goes_on_without_the_device
    project/test_examples.py
    cli/test_infer.py::test_a_conversation
    cli/test_infer.py::test_a_pipe_is_answered_as_it_speaks_and_may_break
    cli/test_infer.py::test_a_sentence_of_ten_thousand_words
    cli/test_infer.py::test_characters
    cli/test_infer.py::test_exported_and_tagged_without_the_run
    cli/test_infer.py::test_json_lines_say_where_things_are
    cli/test_infer.py::test_plain_tags
    cli/test_infer.py::test_what_a_static_graph_does_not_take_or_give_is_named_by_line_and_option
    base/test_memory.py::test_what_is_estimated_is_less_than_what_is_taken
    experiments/test_seeds.py::test_stopped_and_started_again
    tagging/test_sharing.py
    cli/test_suggest.py::test_exported_graphs
    tagging/test_tagger.py::test_a_graph_run_by_hand_from_its_record
    tagging/test_tagger.py::test_confidences_are_posteriors
    tagging/test_tagger.py::test_confidences_of_a_graph
    tagging/test_tagger.py::test_no_more_taggings_than_there_are
    tagging/test_tagger.py::test_run_and_graphs_give_the_same_tags
    tagging/test_tagger.py::test_what_a_graph_does_not_give
    formats/test_sentences.py::test_a_sentence_too_long_for_a_graph_is_named
    training/test_course.py::test_a_small_corpus_is_averaged_from_its_first_step
    training/test_course.py::test_what_a_training_on_few_sentences_says
    training/test_course.py::test_why_a_training_ended
    training/test_loss_scale.py::test_a_training_in_16_bits_skips_what_overflows_and_is_resumed_to_the_bit
    training/test_options_at_work.py::test_each_place_loses_its_own_share
    training/test_options_at_work.py::test_rates_fall_and_weights_decay
    training/test_options_at_work.py::test_tags_are_those_of_the_scheme_without_constraints
    training/test_options_at_work.py::test_words_become_unknown_and_spellings_are_cut
    training/test_train.py::test_a_disk_that_is_full
    training/test_train.py::test_a_loss_that_is_no_number
    training/test_train.py::test_a_signal_saves_and_says_how_to_go_on
    training/test_train.py::test_killed_and_resumed_is_the_same_to_the_bit
    training/test_train.py::test_options_of_a_resumption_are_kept
    training/test_train.py::test_stopped_and_resumed_is_the_same_to_the_bit
    training/test_train.py::test_the_run_that_is_overwritten_stays_until_an_epoch_is_saved
"""
SLOW = {line.strip() for line in SLOW.splitlines() if line.strip()}

#: Graphs take seconds to compile. Of tests that run in both modes, the one in the graph is slow, too, but for some
#: that share one compiled function, and for the BiLSTM's.
QUICK = {f'crf/test_crf.py::test_agrees_with_all_paths[graph-{name}]'
         for name in ('plain', 'unknown tags', 'large scores')} | {
             'nn/test_bilstm.py::test_outputs_and_gradients_are_pytorchs[graph-False]'}

#: Files that take longest, the longest first: what two processes do at the end should be short.
FIRST = """
    training/test_train.py crf/test_crf.py models/test_encoder_runs.py bulk/test_tag_many.py crf/test_forbidden.py
    tagging/test_tagger.py crf/test_mixed_precision.py crf/test_numbers.py models/test_own_model.py
    tagging/test_sharing.py crf/test_second_derivatives.py crf/test_values.py cli/test_console.py
    experiments/test_compare.py cli/test_infer.py project/test_docs.py crf/test_nan.py models/test_graph_files.py
    project/test_fuzz.py project/test_examples.py project/test_wheel.py browser/test_highlighted_page.py
    server/test_answers.py server/test_network_served.py server/test_kinds_served.py server/test_server_page.py
    server/test_life.py training/test_loss_scale.py training/test_course.py crf/test_any_length.py crf/test_nbest.py
    crf/test_constraints.py crf/test_tutorial.py crf/test_transformations.py training/test_options_at_work.py
    nn/test_network.py
""".split()


def pytest_collection_modifyitems(items):
    """Marks what is slow, and puts the longest files first."""
    for item in items:
        name = item.nodeid.removeprefix('tests/')
        in_graph = hasattr(item, 'callspec') and item.callspec.params.get('compiled') == 'graph'
        if in_graph and name not in QUICK or SLOW & {name, name.partition('[')[0], name.partition('::')[0]}:
            item.add_marker('slow')
    place = {file: place for place, file in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.nodeid.removeprefix('tests/').partition('::')[0], len(FIRST)))


def float_tensor(values):
    return ms.Tensor(np.asarray(values, np.float32))


def int_tensor(values):
    return ms.Tensor(np.asarray(values, np.int32))


def make_crf(case, **options):
    """A CRF with the scores and constraints of an `oracle.Case`."""
    crf = CRF(case.num_tags, constraints=case.constraints, **options)
    for name, parameter in NAMES.items():
        getattr(crf, parameter).set_data(float_tensor(case.scores[name]))
    return crf


def parameters(crf):
    return [getattr(crf, name) for name in NAMES.values()]


def assign(crf, scores):
    """Gives a layer the scores of an `oracle.Case`; a graph does not see set_data once it is compiled."""
    for name, parameter in NAMES.items():
        ms.ops.assign(getattr(crf, parameter), float_tensor(scores[name]))


class AllCalls:
    """A layer, and one function of all its calls that is compiled once for each shape, whatever scores it has.

    Args:
        case: an `oracle.Case` with its number of tags and its constraints.
        compiled: what the fixture of this name gives.
        n: of the n best paths.
    """

    RESULTS = ('loss', 'gradients', 'log_prob', 'normalizer', 'marginals', 'decode', 'path_posteriors', 'viterbi',
               'nbest')
    _made: dict = {}

    def __init__(self, case, compiled, n):
        crf = self.crf = make_crf(case)

        def loss(emissions, tags, lengths):
            return crf(emissions, tags, lengths)

        derivative = ms.value_and_grad(loss, 0, parameters(crf))

        def everything(emissions, tags, lengths):
            value, (by_emissions, by_scores) = derivative(emissions, tags, lengths)
            best = crf.decode(emissions, lengths)
            return (value, (by_emissions, *by_scores), crf.log_prob(emissions, tags, lengths),
                    crf.normalizer(emissions, lengths), crf.marginals(emissions, lengths),
                    best, crf.path_posteriors(emissions, best[0], lengths), crf(emissions, seq_length=lengths),
                    crf.nbest(emissions, n, lengths))

        self.run = compiled(everything)

    def __call__(self, emissions, tags, lengths):
        """What all calls give, by `RESULTS`; gradients by emissions, transitions, start and end; path posteriors of
        the best paths."""
        return dict(zip(self.RESULTS, self.run(emissions, tags, lengths)))

    @classmethod
    def of(cls, case, compiled, n=4):
        """That of this process for such cases, with the scores of this one."""
        constraints = None if case.constraints is None else b''.join(np.asarray(part).tobytes()
                                                                     for part in case.constraints)
        key = compiled is ms.jit, custom.in_use(), case.num_tags, constraints, n
        if key not in cls._made:
            cls._made[key] = cls(case, compiled, n)
        assign(cls._made[key].crf, case.scores)
        return cls._made[key]


def close(found, expected, tolerance=1e-5):
    """Equal within a relative error, of the largest value where single ones are small."""
    found = found.asnumpy() if hasattr(found, 'asnumpy') else np.asarray(found)
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    scale = max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


MODES = ['graph', 'pynative']


def pytest_generate_tests(metafunc):
    """Tests of chain and cells run in both modes by plain operators, and by the operators in C++ where they are."""
    if 'compiled' not in metafunc.fixturenames or any('compiled' in mark.args[0] for mark in
                                                      metafunc.definition.iter_markers('parametrize')):
        return
    modes = list(MODES)
    if both_ways(metafunc.definition.nodeid) and library.find().path is not None:
        modes += [f'native {mode}' for mode in MODES]
    metafunc.parametrize('compiled', modes, indirect=True)


def both_ways(nodeid):
    """Whether a test is of something that plain operators and those in C++ compute."""
    return '/crf/' in nodeid or '/nn/' in nodeid


@pytest.fixture
def compiled(request):
    """ms.jit in static-graph mode; what it is given, unchanged, in PyNative mode."""
    custom.use(request.param.startswith('native') or not both_ways(request.node.nodeid))
    yield ms.jit if request.param.endswith('graph') else lambda function: function
    custom.use(True)


def write_corpus(path, count, seed):
    """Sentences of 3 to 5 words; in the test corpus one of 12, for which a graph is compiled at the very end."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        words = 9 if number == 3 and path.name == 'test.tsv' else rng.randint(0, 2)
        for word in rng.choices('to in at on by'.split(), k=words) + ['of']:
            rows.append(f'{word}\tO')
        rows.append(f'{rng.choice("Xan Xel Xor".split())}\tB-PER')
        rows.append(f'{rng.choice("Yan Yel Yor".split())}\tI-PER\n')
    path.write_text('\n'.join(rows) + '\n', encoding='utf-8')


@pytest.fixture(scope='session')
def corpora(tmp_path_factory):
    folder = tmp_path_factory.mktemp('corpora')
    for seed, (part, count) in enumerate((('train', 21), ('dev', 6), ('test', 6))):
        write_corpus(folder / f'{part}.tsv', count, seed)
    return folder


def files(corpora, **others):
    named = {part: corpora / f'{part}.tsv' for part in ('train', 'dev', 'test')}
    return [text for name, path in {**named, **others}.items() for text in (f'--{name}', str(path))]


def options_of(arguments):
    """The `Options` of a command line of train.py that begins a new run."""
    return train.options_of(arguments)


def write_tensors(path, arrays):
    """Replaces a file of a run by a dict of arrays, as a training writes it."""
    with saving(path.parent) as new:
        new.tensors(path.name, arrays)


@pytest.fixture(scope='session')
def undisturbed(corpora):
    """A run in a process of its own, with its output."""
    folder = corpora / 'undisturbed'
    result = subprocess.run([sys.executable, 'train.py', *files(corpora), *SMALL, '--save', str(folder)], cwd=ROOT,
                            capture_output=True, text=True, timeout=200)
    return folder, result


@pytest.fixture(scope='session')
def encoder(tmp_path_factory):
    """The folder of a small pretrained encoder, with random weights."""
    from support.encoders import make_folder
    folder = make_folder(tmp_path_factory.mktemp('encoders') / 'small')
    (folder / 'tokenizer_config.json').write_text('{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}')
    return folder


@pytest.fixture(scope='session')
def network_server(tmp_path_factory):
    """The run of a network, and a server of it, for all tests that ask one: it takes seconds until it is ready."""
    from support.runs import make_run
    from support.servers import serving
    run = make_run(tmp_path_factory.mktemp('network') / 'run')
    with serving('--run', run, '--splitter', 'blanks') as server:
        yield run, server


@pytest.fixture(scope='module')
def browser():
    """Headless Chromium, started once for a file of tests; what a test does with it is in `pages`."""
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
    """A hidden Markov model, for all tests of a file that do not have a run of their own."""
    folder = tmp_path_factory.mktemp('counted') / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(folder)]) == 0
    return folder


@pytest.fixture
def hmm(tmp_path, corpora):
    """A run that is made within a hundredth of a second: a hidden Markov model."""
    folder = tmp_path / 'run'
    assert train.main(['--model', 'hmm', *files(corpora), '--save', str(folder)]) == 0
    return folder
