"""The cells of the tagger agree with float64 NumPy; the optimizers agree with NumPy and with PyTorch."""

import importlib.util
from types import SimpleNamespace

from ms_crf.models.words.network import TaggerNetwork
from ms_crf.nn.characters import CharacterCNN, CharacterLSTM
from ms_crf.nn.softmax import Softmax
from ms_crf.training.step import BETA1, BETA2, Average, Optimizer

import mindspore as ms
import numpy as np
import pytest

from support.chains import MODES, NOT_IN_A_PLAIN_GRAPH
from support.networks import Steps, bilstm, lstm_weights
from support.tensors import close, float_tensor, int_tensor


@pytest.fixture
def generator():
    return np.random.default_rng(0)


def some_spellings(generator):
    spellings = generator.integers(1, 9, (6, 5)).astype(np.int32)
    for word, length in enumerate((5, 1, 3, 0, 2, 5)):
        spellings[word, length:] = 0
    return spellings


def test_network_character_cnn_is_a_convolution_with_maximum(compiled, generator):
    cnn = CharacterCNN(9, 3, 4)
    spellings = some_spellings(generator)
    table = cnn.table.weight.asnumpy().astype(float)
    filters = cnn.filters.weight.asnumpy().astype(float).reshape(4, 3, 3)        # (width, offset, dim)
    expected = np.zeros((6, 4))
    for word, ids in enumerate(spellings):
        vectors = [np.zeros(3)] * 2 + [table[character] for character in ids if character] + [np.zeros(3)] * 2
        for first in range(len(vectors) - 2):
            window = np.stack(vectors[first:first + 3])
            expected[word] = np.maximum(expected[word], (filters * window).sum((1, 2)))
    for training in (False, True):
        cnn.set_train(training)

        @compiled
        def run(spellings):
            return cnn(spellings)

        close(run(int_tensor(spellings)), expected)
        close(run(int_tensor(np.pad(spellings, ((0, 0), (0, 3))))), expected)    # more padding changes nothing


def test_network_character_lstm_gives_the_last_states_of_both_directions(compiled, generator):
    lstm = CharacterLSTM(9, 3, 4)
    directions = [lstm_weights(cell) for cell in (lstm.lstm.forward_lstm, lstm.lstm.backward_lstm)]
    spellings = some_spellings(generator)
    actual = compiled(lstm)(int_tensor(spellings))
    table = lstm.table.weight.asnumpy().astype(float)
    expected = np.zeros((6, 4))
    for word, ids in enumerate(spellings):
        ids = ids[ids != 0]
        if len(ids):
            states = bilstm(table[ids], *directions)
            expected[word] = np.concatenate([states[-1, :2], states[0, 2:]])
    close(actual, expected)


@pytest.mark.parametrize('compiled', MODES, indirect=True)      # the softmax head has no operators in C++
@pytest.mark.parametrize('batch_first', [False, True])
def test_network_softmax_head(compiled, generator, batch_first):
    emissions = generator.normal(size=(5, 3, 4))
    lengths, tags = np.array([5, 0, 3]), generator.integers(0, 4, (5, 3))
    tags[1, 0] = -1                                              # unknown
    probabilities = np.exp(emissions) / np.exp(emissions).sum(2, keepdims=True)
    live = np.arange(5)[:, None] < lengths
    picked = np.take_along_axis(probabilities, np.maximum(tags, 0)[:, :, None], 2)[:, :, 0]
    losses = -(np.log(picked) * (live & (tags >= 0))).sum(0)
    turn = (lambda array: np.swapaxes(array, 0, 1)) if batch_first else np.asarray
    inputs = float_tensor(turn(emissions)), int_tensor(turn(tags)), int_tensor(lengths)
    expected = {'none': losses, 'sum': losses.sum(), 'mean': losses.sum() / 2, 'token_mean': losses.sum() / 8}
    heads = [Softmax(4, batch_first, reduction) for reduction in expected]

    def everything(emissions, tags, lengths):
        return ([head(emissions, tags, lengths) for head in heads], heads[0].decode(emissions, lengths),
                heads[0].marginals(emissions, lengths))

    reduced, (paths, scores), marginals = compiled(everything)(*inputs)
    for actual, value in zip(reduced, expected.values()):
        close(actual, value)
    assert (paths.asnumpy() == (probabilities.argmax(2) * live).T).all()
    close(scores, (np.log(probabilities.max(2)) * live).sum(0))
    close(marginals, turn(probabilities * live[:, :, None]))


def small_inputs(generator):
    spellings = some_spellings(generator)
    places = generator.integers(0, 6, (4, 3))
    return [int_tensor(array) for array in (generator.permutation(6), generator.permutation(6), spellings[:2],
                                            spellings[2:, :3] * 0 + spellings[2:, :3], places, [4, 0, 2])]


@NOT_IN_A_PLAIN_GRAPH
@pytest.mark.parametrize('options', [{'char': 'none', 'head': 'softmax'}, {'char': 'lstm', 'num_layers': 2}])
def test_network_the_network_reads_words_by_their_place(compiled, generator, options):
    """The order of the distinct words and the indices on padding do not change paths and scores."""
    ms.set_seed(1)
    network = TaggerNetwork(7, 3, 4, 6, num_characters=9, char_dim=2, char_width=4, **options)
    words, forms, long_, short, places, lengths = (tensor.asnumpy() for tensor in small_inputs(generator))

    @compiled
    def run(words, *others):
        return network.head.decode(network.emissions(network.rows(words), *others), others[-1])

    paths, scores = run(*map(int_tensor, (words, forms, long_, short, places, lengths)))
    order = generator.permutation(6)
    other = places.copy()
    other[2:, 2] = 5
    paths2, scores2 = run(*map(int_tensor, (words[order], np.argsort(order)[forms], long_, short, other, lengths)))
    assert (paths.asnumpy() == paths2.asnumpy()).all() and not paths.asnumpy()[1].any()
    close(scores2, scores.asnumpy())


@NOT_IN_A_PLAIN_GRAPH
def test_network_in_16_bits_it_gives_nearly_the_same(compiled, generator):
    """With cells in float16, as with `--precision mixed`, loss and gradients agree with float32 within 1e-2.

    No gradient becomes 0 by underflow.
    """
    inputs, tags = small_inputs(generator), int_tensor([[0, 1, 2], [3, 0, 1], [2, 0, 0], [1, 0, 0]])

    def loss_and_gradients(cast, compiled):
        ms.set_seed(1)
        network = TaggerNetwork(7, 3, 4, 6, num_characters=9, char_dim=2, char_width=4)
        if cast:
            for cell in (network.layers, network.characters):
                cell.to_float(ms.float16)
        keep = [float_tensor(np.ones((4, 3, width))) for width in network.widths]

        def loss(words, forms, long_spellings, short_spellings, places, lengths):
            return network(network.rows(words), forms, long_spellings, short_spellings, places, lengths, tags, keep)

        return compiled(ms.value_and_grad(loss, None, network.trainable_params()))(*inputs)

    exact, gradients = loss_and_gradients(False, lambda function: function)      # not compiled, to save seconds
    value, others = loss_and_gradients(True, compiled)
    close(value, exact.asnumpy(), 1e-2)
    for gradient, other in zip(gradients, others):
        assert gradient.asnumpy().any() == other.asnumpy().any()
        close(other.astype(ms.float32), gradient.asnumpy(), 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize('kind,options', [('adam', {}), ('adamw', {'weight_decay': 0.1}),
                                          ('sgd', {'weight_decay': 0.1}), ('adam', {'clip': 0.5})])
def test_network_updates_are_those_of_numpy_and_of_pytorch(generator, kind, options):
    """Three updates with each optimizer agree with NumPy, and with PyTorch's optimizer if PyTorch is installed."""
    ms.set_seed(1)
    network = TaggerNetwork(5, 3, 2, 4, char='none')
    optimizer = Optimizer(network, kind, **{'clip': 0.0, **options})
    head = {id(parameter) for parameter in network.head.trainable_params()}
    # Each batch has all rows of the word table, so its sparse update must equal a dense update.
    parameters = [*optimizer.weights, network.word_table]
    weights = [parameter.asnumpy().copy() for parameter in parameters]
    decay = [options.get('weight_decay', 0.0) if parameter.ndim > 1 and id(parameter) not in head else 0.0
             for parameter in parameters]
    peers = [Steps(kind, 0.01, decay)]
    if importlib.util.find_spec('torch'):
        peers.append(steps_of_pytorch(kind, weights, decay))
    expected_weights = [weights for _ in peers]
    run = ms.jit(optimizer)
    order = [3, 0, 4, 1, 2]
    for step in range(1, 4):
        gradients = [generator.normal(size=weight.shape).astype(np.float32) for weight in weights]
        expected = np.sqrt(sum((gradient.astype(float) ** 2).sum() for gradient in gradients))
        factor = min(1.0, options['clip'] / expected) if 'clip' in options else 1.0
        clipped = [factor * gradient.astype(float) for gradient in gradients]
        expected_weights = [peer.step(weights, clipped) for peer, weights in zip(peers, expected_weights)]
        now = float_tensor([0.01, BETA1 ** step, BETA2 ** step])
        norm = run(now, int_tensor(order), optimizer.rows(int_tensor(order)), float_tensor(gradients[-1][order]),
                   tuple(float_tensor(gradient) for gradient in gradients[:-1]))
        close(norm, expected)
    for weights in expected_weights:
        for actual, weight in zip(parameters, weights):
            # Tolerance for epsilon: the fused kernel adds it before the bias correction, PyTorch after it.
            close(actual, weight, 1e-4)


def steps_of_pytorch(kind, weights, decay):
    """PyTorch's optimizer, with the method `step` of `support.networks.Steps`."""
    import torch
    weights = [torch.nn.Parameter(torch.tensor(weight.astype(float))) for weight in weights]
    maker = {'adam': torch.optim.Adam, 'adamw': torch.optim.AdamW, 'sgd': torch.optim.SGD}[kind]
    peer = maker([{'params': [weight], 'weight_decay': each} for weight, each in zip(weights, decay)], lr=0.01,
                 **({'momentum': 0.9} if kind == 'sgd' else {}))

    def step(_, gradients):
        for weight, gradient in zip(weights, gradients):
            weight.grad = torch.tensor(gradient)
        peer.step()
        return [weight.detach().numpy() for weight in weights]
    return SimpleNamespace(step=step)


def test_network_rates_of_their_own_and_rows_that_are_not_in_the_batch(generator):
    ms.set_seed(1)
    network = TaggerNetwork(5, 3, 2, 4, char='none')
    optimizer = Optimizer(network, 'sgd', momentum=0.0, clip=0.0, crf_rate=3.0, row_rate=0.5)
    before = {parameter.name: parameter.asnumpy().copy() for parameter in network.trainable_params()}
    gradients = tuple(ms.ops.ones_like(weight) for weight in optimizer.weights)
    ids = int_tensor([3, 1, 0])
    optimizer(float_tensor([0.1, 1, 1]), ids, optimizer.rows(ids), float_tensor([[1] * 3, [2] * 3, [0] * 3]), gradients)
    for parameter in network.trainable_params():
        step = before[parameter.name] - parameter.asnumpy()
        if parameter is network.word_table:
            close(step, 0.05 * np.array([[0] * 3, [2] * 3, [0] * 3, [1] * 3, [0] * 3]))
        else:
            close(step, np.full(parameter.shape, 0.3 if parameter.name.startswith('head.') else 0.1))


def test_network_the_average_follows(compiled, generator):
    network, other = TaggerNetwork(5, 3, 2, 4, char='none'), TaggerNetwork(5, 3, 2, 4, char='none')
    other.update_parameters_name('average.')
    source = [parameter.asnumpy().copy() for parameter in network.trainable_params()]
    target = [parameter.asnumpy().copy() for parameter in other.trainable_params()]
    compiled(Average(network, other))(ms.Tensor(0.25, ms.float32))
    for parameter, a, b in zip(other.trainable_params(), source, target):
        close(parameter, 0.25 * a + 0.75 * b)
