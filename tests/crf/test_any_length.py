"""Graphs compiled once for any length and batch size, exported and loaded again, agree with enumeration."""

import functools

from ms_crf import CRF, allowed_transitions, post_decode
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from support.chains import MODES, check_paths_and_posteriors, make_crf, posterior_after
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

pytestmark = pytest.mark.slow

BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
BIO = (BIO.transitions, BIO.start, BIO.end)
SHAPES = [(5, 4), (1, 2), (9, 1), (1, 1), (8, 3)]
ANY = (ms.Tensor(shape=[None, None, 3], dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.int32))


class Everything(nn.Cell):
    """Best paths, their scores and path posteriors, the marginals and the normalizer."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def construct(self, emissions, lengths):
        paths, scores = self.head.decode(emissions, lengths)
        chosen, conditional = self.head.path_posteriors(emissions, paths, lengths)
        return (paths, scores, chosen, conditional, self.head.marginals(emissions, lengths),
                self.head.normalizer(emissions, lengths))


class History(nn.Cell):
    def __init__(self, crf):
        super().__init__()
        self.crf = crf

    def construct(self, emissions, lengths):
        return self.crf(emissions, seq_length=lengths)


class EverythingAndHistory(nn.Cell):
    def __init__(self, crf):
        super().__init__()
        self.everything, self.history = Everything(crf), History(crf)

    def construct(self, emissions, lengths):
        return *self.everything(emissions, lengths), *self.history(emissions, lengths)


def exported(cell, path):
    """Exports a cell as MindIR for any length and batch size, and loads it."""
    ms.export(cell, *ANY, file_name=str(path), file_format='MINDIR')
    graph = nn.GraphCell(ms.load(f'{path}.mindir'))
    graph.set_inputs(*ANY)
    return graph


CASES = {'free': Case(0, 4, 2, 3),
         'forbidding': Case(0, 4, 2, 3, constraints=BIO).forbid(transitions=[(0, 1)], end=[0])}


@pytest.fixture(scope='module')
def graph_of(tmp_path_factory):
    """A function that returns the exported graph of a layer of `CASES` or of the softmax head.

    The graph of the layer 'forbidding' also returns the Viterbi history. Each graph is exported once.
    """
    folder = tmp_path_factory.mktemp('graphs')

    @functools.cache
    def graph(name):
        head = Softmax(3) if name == 'softmax' else make_crf(CASES[name])
        return exported((EverythingAndHistory if name == 'forbidding' else Everything)(head), folder / name)

    return graph


@pytest.mark.parametrize('name', CASES)
def test_any_length_one_graph_serves_all_shapes(name, graph_of):
    """One exported graph agrees with enumeration at all shapes, also with constraints and scores of -inf."""
    first, graph = CASES[name], graph_of(name)
    for length, batch in SHAPES:
        case = Case(length, length, batch, 3, scale=2.0, constraints=first.constraints)
        case.scores = first.scores
        case.rescore()
        for forbidden in [()] if name == 'free' else [(), [(0, 0, 0), (length - 1, 0, 2)]]:
            case.forbid(emissions=forbidden)
            actual = graph(float_tensor(case.emissions), int_tensor(case.lengths))
            check_paths_and_posteriors(case, actual[:6])
            if name == 'forbidding':
                score, steps = actual[6:]
                assert steps.shape == (length - 1, batch, 3)
                best = [row.best() if row.length else [] for row in case.rows]
                assert post_decode(score, steps, int_tensor(case.lengths)) == best


@pytest.mark.parametrize('name', ['forbidding', 'softmax'])
def test_any_length_lengths_that_can_not_be_give_nan_in_one_graph_for_all_shapes(name, graph_of):
    graph = graph_of(name)
    for length in (5, 9):
        emissions = float_tensor(np.random.default_rng(0).normal(size=(length, 3, 3)))
        good = graph(emissions, int_tensor([length, 2, 0]))
        for wrong in (-1, length + 1):
            actual = graph(emissions, int_tensor([length, 2, wrong]))
            for values, expected in zip(actual[1:4] + actual[5:7], good[1:4] + good[5:7]):
                close(values[:2], expected[:2].asnumpy())
                assert np.isnan(values[2].asnumpy()).all()


@pytest.mark.parametrize('compiled', ['native graph', 'pynative'], indirect=True)
@pytest.mark.parametrize('head', [CRF, Softmax])
def test_any_length_along_is_the_old_name_of_path_posteriors(head, compiled):
    layer, case = head(3), Case(3, 4, 3, 3)

    def old(*inputs):
        return layer.along(*inputs)

    inputs = float_tensor(case.emissions), int_tensor(np.maximum(case.tags.T, 0)), int_tensor(case.lengths)
    for actual, expected in zip(compiled(old)(*inputs), layer.path_posteriors(*inputs)):
        close(actual, expected.asnumpy())


def test_any_length_batch_first_and_paths_other_than_the_best(compiled):
    case = Case(2, 4, 3, 3)
    crf = make_crf(case, batch_first=True)
    paths = np.where(np.arange(4) < case.lengths[:, None], case.tags.T, 0)
    chosen, conditional = compiled(crf.path_posteriors)(
        float_tensor(case.emissions.swapaxes(0, 1)), int_tensor(paths), int_tensor(case.lengths))
    for b, row in enumerate(case.rows):
        tags = paths[b]
        for t in range(row.length):
            close(chosen[b, t], row.marginals()[t, tags[t]])
            close(conditional[b, t], posterior_after(row, tags[t - 1], t))


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # the softmax head has no operators in C++
def test_any_length_softmax_is_a_chain_without_transitions(compiled, graph_of):
    case = Case(3, 4, 3, 3)
    case.scores = {name: np.zeros_like(values) for name, values in case.scores.items()}
    case.rescore()
    inputs = float_tensor(case.emissions), int_tensor(case.lengths)
    head = Softmax(3)
    everything = Everything(head)

    def known(emissions, lengths):
        return everything(emissions, lengths), head.nbest(emissions, 3, lengths)

    actual, (paths, scores) = compiled(known)(*inputs)
    runs = [actual]
    if compiled is ms.jit:
        runs.append(graph_of('softmax')(*inputs))
    normalizer = np.array([row.log_normalizer() if row.length else 0.0 for row in case.rows])
    for b, row in enumerate(case.rows):
        if row.length:
            close(scores[b], row.ranked()[:3] - normalizer[b])
            assert paths[b, 0, :row.length].asnumpy().tolist() == row.best()
    for paths, scores, *others, zeros in runs:
        # The scores of the softmax head are log probabilities, so its normalizer is 0.
        assert not zeros.asnumpy().any()
        scores = float_tensor(scores.asnumpy() + normalizer)
        check_paths_and_posteriors(case, (paths, scores, *others, float_tensor(normalizer)))


def test_any_length_a_head_that_is_compiled_for_any_length_checks_what_it_can():
    crf = CRF(4)
    crf_inputs = ms.Tensor(shape=[None, None, 3], dtype=ms.float32), ANY[1]
    with pytest.raises(ValueError, match=r'num_tags = 4, got shape \(None, None, 3\)'):
        ms.export(History(crf), *crf_inputs, file_name='unused', file_format='MINDIR')
