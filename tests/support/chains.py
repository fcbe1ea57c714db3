"""A CRF layer with the scores of a case, all its calls, and checks of the results against enumeration."""

from ms_crf import CRF, post_decode
from ms_crf.native import custom

import mindspore as ms
import numpy as np
import pytest

from support.tensors import close, float_tensor, int_tensor

#: the two execution modes of MindSpore
MODES = ['graph', 'pynative']
#: Marks of tests that leave out one mode of plain operators. A graph for a single test takes seconds to compile.
#: PyNative mode is slower than a graph that other tests compile as well. Each method has a test in all modes.
NOT_IN_A_PLAIN_GRAPH = pytest.mark.modes('pynative', 'native graph', 'native pynative')
NOT_IN_PLAIN_PYNATIVE = pytest.mark.modes('graph', 'native graph', 'native pynative')
NAMES = {'transitions': 'transitions', 'start': 'start_transitions', 'end': 'end_transitions'}


def in_a_plain_graph(compiled):
    """Whether a test compiles plain operators. Such a graph takes seconds to compile.

    Args:
        compiled: the fixture `compiled`.
    """
    return compiled is ms.jit and not custom.in_use()


def make_crf(case, **options):
    """A CRF with the scores and constraints of an `oracle.Case`."""
    crf = CRF(case.num_tags, constraints=case.constraints, **options)
    for name, parameter in NAMES.items():
        getattr(crf, parameter).set_data(float_tensor(case.scores[name]))
    return crf


def parameters(crf):
    return [getattr(crf, name) for name in NAMES.values()]


def assign(crf, scores):
    """Assigns the scores of an `oracle.Case` to a layer with `ops.assign`, because graphs do not see `set_data`."""
    for name, parameter in NAMES.items():
        ms.ops.assign(getattr(crf, parameter), float_tensor(scores[name]))


class AllCalls:
    """A layer, and one function with all its calls. The function is compiled once for each shape, for any scores.

    Args:
        case: an `oracle.Case` with the number of tags and the constraints of the layer.
        compiled: the fixture `compiled`.
        n: number of paths of the call of `nbest`.
        results: names of the results: `RESULTS`, or `PATHS` for only the calls that find paths.
    """

    PATHS = ('decode', 'viterbi', 'nbest')
    RESULTS = (*PATHS, 'loss', 'gradients', 'log_prob', 'normalizer', 'marginals', 'path_posteriors')
    _made: dict = {}

    def __init__(self, case, compiled, n, results=RESULTS):
        crf = self.crf = make_crf(case)
        self.results = results

        def loss(emissions, tags, lengths):
            return crf(emissions, tags, lengths)

        derivative = ms.value_and_grad(loss, 0, parameters(crf))

        def paths(emissions, tags, lengths):
            return (crf.decode(emissions, lengths), crf(emissions, seq_length=lengths),
                    crf.nbest(emissions, n, lengths))

        def everything(emissions, tags, lengths):
            best, viterbi, several = paths(emissions, tags, lengths)
            value, (by_emissions, by_scores) = derivative(emissions, tags, lengths)
            return (best, viterbi, several, value, (by_emissions, *by_scores), crf.log_prob(emissions, tags, lengths),
                    crf.normalizer(emissions, lengths), crf.marginals(emissions, lengths),
                    crf.path_posteriors(emissions, best[0], lengths))

        self.run = compiled(paths if results == self.PATHS else everything)

    def __call__(self, emissions, tags, lengths):
        """A dict of the results by name.

        The gradients are by emissions, transitions, start and end scores. The path posteriors are of the best paths.
        """
        return dict(zip(self.results, self.run(emissions, tags, lengths)))

    @classmethod
    def of(cls, case, compiled, n=4, results=RESULTS):
        """The `AllCalls` for cases like this one, with the scores of `case`. Each process creates it once."""
        constraints = None if case.constraints is None else b''.join(np.asarray(part).tobytes()
                                                                     for part in case.constraints)
        key = compiled is ms.jit, custom.in_use(), case.num_tags, constraints, n, results
        if key not in cls._made:
            cls._made[key] = cls(case, compiled, n, results)
        assign(cls._made[key].crf, case.scores)
        return cls._made[key]


def posterior_after(row, tag_before, position):
    """Posterior (K,) of each tag at a position of an `oracle.Row`, given the previous tag."""
    weights = np.exp(row.scores - row.log_normalizer())
    if position:
        weights = weights * (row.paths[:, position - 1] == tag_before)
    sums = np.array([(weights * (row.paths[:, position] == tag)).sum() for tag in range(row.num_tags)])
    return sums / weights.sum()


def check_paths_and_posteriors(case, actual):
    """Checks best paths, their scores and posteriors, marginals and normalizer against enumeration.

    Args:
        case: an `oracle.Case`.
        actual: tuple of paths, scores, posteriors of the paths' tags, posteriors of all tags given the path,
            marginals and normalizer.
    """
    paths, scores, chosen, conditional, marginals, normalizer = (tensor.asnumpy() for tensor in actual)
    expected = case.by_position(lambda _, row: row.marginals())
    close(marginals, expected)
    close(normalizer, [row.log_normalizer() if row.length else 0.0 for row in case.rows])
    for b, row in enumerate(case.rows):
        best = row.best() if row.length else []
        assert paths[b].tolist() == best + [0] * (len(paths[b]) - row.length)
        close(scores[b], row.scores.max() if row.length else 0.0)
        close(chosen[b, :row.length], expected[np.arange(row.length), b, best])
        for t in range(row.length):
            close(conditional[b, t], posterior_after(row, best[t - 1], t))
        assert not chosen[b, row.length:].any() and not conditional[b, row.length:].any()


def check_all_calls(case, layer):
    """Checks the results of `layer`, an `AllCalls`, for an `oracle.Case` against enumeration."""
    actual = layer(float_tensor(case.emissions), int_tensor(case.tags), int_tensor(case.lengths))
    check_best_paths(case, actual)
    if layer.results == layer.PATHS:
        return
    check_paths_and_posteriors(case, (*actual['decode'], *actual['path_posteriors'], actual['marginals'],
                                      actual['normalizer']))
    close(actual['loss'], case.losses().sum())
    for gradient, expected in zip(actual['gradients'], case.gradients()):
        close(gradient, expected)
    close(actual['log_prob'], -case.losses())


def check_best_paths(case, actual):
    """Checks the results of `decode`, `viterbi` and `nbest` in a dict of `AllCalls` against enumeration."""
    best = [row.best() if row.length else [] for row in case.rows]
    paths, scores = (result.asnumpy() for result in actual['decode'])
    assert paths.dtype == np.int32
    assert [path.tolist() for path in paths] == [path + [0] * (paths.shape[1] - len(path)) for path in best]
    close(scores, [row.scores.max() if row.length else 0.0 for row in case.rows])
    assert post_decode(*actual['viterbi'], int_tensor(case.lengths)) == best

    paths, scores = (result.asnumpy() for result in actual['nbest'])
    for b, row in enumerate(case.rows):
        count = min(len(row.scores), scores.shape[1])
        close(scores[b, :count], row.ranked()[:count])
        assert (scores[b, count:] < row.scores.min()).all()
        several = [tuple(path[:row.length].tolist()) for path in paths[b, :count]]
        assert len(set(several)) == count
        by_path = dict(zip(map(tuple, row.paths.tolist()), row.scores))
        close([by_path[path] for path in several], scores[b, :count])
        assert several[0] == tuple(best[b])
        posteriors = np.exp(scores[b] - row.log_normalizer())
        rounding = max(1e-5, 1e-7 * np.abs(row.scores).max())    # float32 rounding of the scores
        close(posteriors[:count], np.exp(row.ranked()[:count] - row.log_normalizer()), rounding)
        assert not posteriors[count:].any()
