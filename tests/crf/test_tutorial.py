"""The functions and the cell of the MindSpore tutorial on LSTM+CRF, and training on its two sentences."""

from ms_crf import (
    BiLSTM_CRF,
    compute_normalizer,
    compute_score,
    post_decode,
    sequence_mask,
    viterbi_decode,
)
from ms_crf.nn.bilstm import BiLSTM

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from support.chains import MODES
from support.oracle import Case
from support.tensors import close, float_tensor, int_tensor

# Indices of -inf in a case of 5 positions, 4 rows (the first one without padding) and 3 tags: none, in all scores, and
# in a column of the transitions.
FORBIDDEN = ({}, {'emissions': [(1, 0, 1), (3, 0, 0)], 'transitions': [(1, 1), (0, 2)], 'start': [2], 'end': [2]},
             {'transitions': [(slice(None), 1)]})


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # sequence_mask has no operator in C++
def test_tutorial_sequence_mask(compiled):
    def both(lengths):
        return sequence_mask(lengths, 4), sequence_mask(lengths, 4, batch_first=True)

    expected = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
    length_first, batch_first = compiled(both)(int_tensor([4, 2, 0]))
    assert batch_first.asnumpy().tolist() == expected.tolist()
    assert length_first.asnumpy().tolist() == expected.T.tolist()
    assert length_first.dtype == ms.int64


@pytest.mark.slow
def test_tutorial_functions_agree_with_all_paths(compiled):
    lengths = int_tensor(Case(0, 5, 4, 3).lengths)
    mask = sequence_mask(lengths, 5)

    def loss(emissions, tags, transitions, start, end):
        score = compute_score(emissions, tags, lengths - 1, mask, transitions, start, end)
        return (compute_normalizer(emissions, mask, transitions, start, end) - score).sum()

    def loss_and_paths(emissions, tags, transitions, start, end):
        return (ms.value_and_grad(loss, (0, 2, 3, 4))(emissions, tags, transitions, start, end),
                viterbi_decode(emissions, mask, transitions, start, end))

    run = compiled(loss_and_paths)
    for forbidden in FORBIDDEN:
        case = Case(0, 5, 4, 3).forbid(**forbidden)
        scores = [float_tensor(case.scores[name]) for name in ('transitions', 'start', 'end')]
        emissions, tags = float_tensor(case.emissions), int_tensor(case.tags)
        (value, gradients), (score, history) = run(emissions, tags, *scores)
        close(value, case.losses().sum())
        for actual, expected in zip(gradients, case.gradients()):
            close(actual, expected)
        best = [row.best() for row in case.rows]
        assert post_decode(score, history, lengths) == best
        assert post_decode(score, tuple(history), lengths) == best
        close(compute_score(emissions, tags, lengths - 1, mask, *scores),
              [row.log_normalizer(case.known(b)) for b, row in enumerate(case.rows)])


def test_tutorial_post_decode_does_not_read_behind_the_end():
    """`post_decode` ignores steps of the history on padding, and agrees with enumeration.

    The history is computed as in the tutorial, whose recursion continues on padding.
    """
    case = Case(1, 6, 5, 3)
    history, scores = [], case.scores['start'] + case.emissions[0]
    transitions, ends = case.scores['transitions'], scores.copy()
    for t in range(1, 6):
        table = scores[:, :, None] + transitions
        history.append(table.argmax(1))
        scores = table.max(1) + case.emissions[t]
        ends[case.lengths > t] = scores[case.lengths > t]
    ends = ends + case.scores['end']
    assert post_decode(ends, tuple(history), case.lengths) == [row.best() for row in case.rows]
    assert post_decode(ms.Tensor(ends), tuple(ms.Tensor(step) for step in history), ms.Tensor(case.lengths)) == [
        row.best() for row in case.rows]
    assert post_decode(np.array([[1.0, 3.0, 3.0]]), (), np.array([1])) == [[1]]


def test_tutorial_bilstm_does_not_see_padding(compiled):
    """The states of each sentence equal its states without padding; states of an empty row are finite."""
    ms.set_seed(1)
    lstm = BiLSTM(3, 8)
    rng = np.random.default_rng(0)
    inputs, lengths = rng.normal(size=(6, 4, 3)).astype(np.float32), [6, 3, 1, 0]

    def run(inputs, lengths):
        return lstm(inputs, lengths)

    together = compiled(run)(float_tensor(inputs), int_tensor(lengths)).asnumpy()
    assert together.shape == (6, 4, 8)
    assert np.isfinite(together).all()
    for b, n in enumerate(lengths[:3]):
        alone = lstm(float_tensor(inputs[:n, b:b + 1]), int_tensor([n])).asnumpy()
        np.testing.assert_allclose(together[:n, b], alone[:, 0], atol=1e-6)
    backwards = lstm.backward_lstm(float_tensor(inputs[2::-1, 1:2]))[0].asnumpy()[::-1]
    np.testing.assert_allclose(together[:3, 1, 4:], backwards[:, 0], atol=1e-6)


@pytest.mark.slow
def test_tutorial_cell_runs_in_graph_mode():
    ms.set_seed(1)
    model = BiLSTM_CRF(10, 4, 6, 3, reduction='token_mean')
    inputs, lengths, tags = int_tensor([[1, 2, 3], [4, 0, 0]]), int_tensor([3, 1]), int_tensor([[0, 1, 2], [2, 0, 0]])
    eager = model(inputs, lengths, tags), *model(inputs, lengths), *model.decode(inputs, lengths)

    @ms.jit
    def everything(inputs, lengths, tags):
        return model(inputs, lengths, tags), *model(inputs, lengths), *model.decode(inputs, lengths)

    for actual, expected in zip(everything(inputs, lengths, tags), eager):
        close(actual, expected.asnumpy())


@pytest.mark.slow
def test_tutorial_two_sentences():
    """After 500 steps of SGD, 499 of them compiled, the model predicts the tags of both sentences."""
    training_data = [
        ('the wall street journal reported today that apple corporation made money'.split(),
         'B I I I O O O B I O O'.split()),
        ('georgia tech is a university in georgia'.split(), 'B I O O O O B'.split()),
    ]
    words = ['<pad>', *dict.fromkeys(word for sentence, _ in training_data for word in sentence)]
    tag_names = ['B', 'I', 'O']
    data, labels = np.zeros((2, 11), int), np.full((2, 11), 2)
    for row, (sentence, tags) in enumerate(training_data):
        data[row, :len(sentence)] = [words.index(word) for word in sentence]
        labels[row, :len(tags)] = [tag_names.index(tag) for tag in tags]
    data, labels, lengths = ms.Tensor(data), ms.Tensor(labels), ms.Tensor([11, 7])

    ms.set_seed(1)
    model = BiLSTM_CRF(len(words), 16, 32, len(tag_names))
    optimizer = nn.SGD(model.trainable_params(), learning_rate=0.01, weight_decay=1e-4)
    grad_fn = ms.value_and_grad(model, None, optimizer.parameters)

    def train_step(data, seq_length, label):
        loss, grads = grad_fn(data, seq_length, label)
        return ms.ops.depend(loss, optimizer(grads))

    first = train_step(data, lengths, labels)                    # not compiled, as in the tutorial
    compiled_step = ms.jit(train_step)
    for _ in range(499):
        loss = compiled_step(data, lengths, labels)
    assert float(loss.asnumpy()) < 1.0 < float(first.asnumpy())
    score, history = model(data, lengths)
    predicted = [[tag_names[tag] for tag in path] for path in post_decode(score, history, lengths)]
    assert predicted == [tags for _, tags in training_data]
