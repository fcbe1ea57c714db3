"""Attributes of cells cannot change after construction, because graphs depend on them. Copies of cells work."""

import copy
import pickle

from ms_crf import CRF, BiLSTM_CRF, allowed_transitions
from ms_crf.crf.mindspore_fixes import FixedAttributes
from ms_crf.models.encoder.network import SubwordTagger
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.nn import bilstm, characters, head, softmax, transformer
from ms_crf.nn.softmax import Softmax

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, nn, ops

from support.tensors import close, float_tensor, int_tensor

RNG = np.random.default_rng(0)
EMISSIONS, TAGS = float_tensor(RNG.normal(size=(4, 4, 3))), int_tensor(RNG.integers(0, 3, (4, 4)))
LENGTHS = int_tensor([4, 1, 0, 3])
BIO = allowed_transitions('BIO', ['O', 'B', 'I'])
IDS = int_tensor(RNG.integers(0, 5, (4, 4)))

# For each cell: a function that creates it, and the arguments of a call, or None if the cell is not called here.
CELLS = {
    CRF: (lambda: CRF(3, constraints=BIO), (EMISSIONS, TAGS, LENGTHS)),
    Softmax: (lambda: Softmax(3), (EMISSIONS, TAGS, LENGTHS)),
    BiLSTM_CRF: (lambda: BiLSTM_CRF(5, 2, 4, 3), (IDS, LENGTHS, TAGS)),
    bilstm.BiLSTM: (lambda: bilstm.BiLSTM(3, 4), (EMISSIONS, LENGTHS)),
    characters.CharacterTable: (lambda: characters.CharacterTable(5, 2), (IDS,)),
    characters.CharacterCNN: (lambda: characters.CharacterCNN(5, 2, 3), (IDS,)),
    characters.CharacterLSTM: (lambda: characters.CharacterLSTM(5, 2, 4), (IDS,)),
    transformer.Linear: (lambda: transformer.Linear(4, 2), (EMISSIONS[:, :, 0],)),
    transformer.Encoder: (lambda: transformer.Encoder(5, 4, 1, 2, 8, 6, 0, 1, 'gelu', 1e-5), (IDS, LENGTHS)),
    SubwordTagger: (lambda: SubwordTagger(3, 3, 4, 1), None),
    TaggerNetwork: (lambda: TaggerNetwork(5, 2, 3, 4, num_characters=5, char_dim=2, char_width=3), None),
}


QUICK = Softmax, transformer.Linear, SubwordTagger, TaggerNetwork       # graphs of all other cells take longer


def test_attributes_all_cells_have_fixed_attributes():
    for module in (bilstm, characters, head, softmax, transformer):
        for cell in vars(module).values():
            if isinstance(cell, type) and issubclass(cell, nn.Cell) and cell.__module__ == module.__name__:
                assert issubclass(cell, (FixedAttributes, nn.LSTM)), cell


def check_refused(cell, in_a_graph):
    """Checks that no public attribute set by the constructor can be assigned or deleted.

    Tries several values for each attribute; for parameters also their current value, if the cell is in a graph.
    """
    message = rf'{type(cell).__name__}\.(\w+) [^\n]*$'
    own = {name for name in {*vars(cell), *cell._params, *cell._cells} - set(vars(nn.Cell())) if name[0] != '_'}
    assert own and own <= cell._fixed
    for name in cell._fixed:
        old = getattr(cell, name)
        others = [None, 3, True, 'mean', nn.Dense(2, 2), Parameter(ops.zeros((2, 5)), name='other')]
        if in_a_graph or name not in cell._params:
            others.append(old)
        for other in others:
            with pytest.raises((AttributeError, TypeError, ValueError), match=message):
                setattr(cell, name, other)
        with pytest.raises(AttributeError, match=rf'{type(cell).__name__}\.{name} cannot be deleted$'):
            delattr(cell, name)
        assert name not in {*vars(cell), *cell._params, *cell._cells} or getattr(cell, name) is old


def copies_of(cell):
    """A deep copy of a cell, and a pickled copy if it contains no layers of MindSpore, which cannot be pickled."""
    yield copy.deepcopy(cell)
    if isinstance(cell, (CRF, Softmax, characters.CharacterTable, transformer.Linear)):
        yield pickle.loads(pickle.dumps(cell))


@pytest.mark.parametrize('cell', [cell if cell in QUICK else pytest.param(cell, marks=pytest.mark.slow)
                                  for cell in CELLS])
def test_attributes_are_refused_and_copies_compute_the_same(cell):
    """Attributes cannot be assigned before a call, after a call, and after compilation.

    Copies compute the same as the original and have separate parameters: changing a copy leaves the original.
    """
    make, arguments = CELLS[cell]
    one = make()
    check_refused(one, False)
    if arguments is None:
        for other in copies_of(one):
            assert list(other.parameters_dict()) == list(one.parameters_dict())
        return
    expected = one(*arguments).asnumpy()
    check_refused(one, False)
    close(ms.jit(one)(*arguments), expected)
    check_refused(one, True)
    for other in copies_of(one):
        check_refused(other, False)
        close(other(*arguments), expected)
        for parameter in other.get_parameters():
            parameter.set_data(parameter + float_tensor(RNG.normal(size=parameter.shape)))
        changed = other(*arguments).asnumpy()
        if other.trainable_params():
            assert not np.allclose(changed, expected)
        close(ms.jit(other)(*arguments), changed)
        close(one(*arguments), expected)
        close(ms.jit(one)(*arguments), expected)


@pytest.mark.slow
def test_attributes_training_a_copy_leaves_the_original():
    """Training a copy of a compiled layer does not change the original's parameters or results.

    The second copy behaves as the first one did, so it does not reuse graphs of the deleted first copy.
    """
    crf = CRF(3, reduction='mean')
    step = ms.jit(ms.value_and_grad(crf, None, crf.trainable_params()))
    before = [parameter.asnumpy().copy() for parameter in crf.trainable_params()]
    losses = []
    for _ in range(2):
        other = copy.deepcopy(crf)
        optimizer = nn.SGD(other.trainable_params(), 0.5)
        loss, gradients = ms.jit(ms.value_and_grad(other, None, other.trainable_params()))(EMISSIONS, TAGS, LENGTHS)
        close(loss, step(EMISSIONS, TAGS, LENGTHS)[0].asnumpy())
        optimizer(gradients)
        losses.append(float(other(EMISSIONS, TAGS, LENGTHS)))
        assert losses[-1] < float(loss) and losses[-1] == losses[0]
        del other, optimizer
    for parameter, values in zip(crf.trainable_params(), before):
        assert (parameter.asnumpy() == values).all()


def test_attributes_constraints_are_a_copy():
    crf = CRF(3, constraints=BIO)
    for array, expected in zip(crf.constraints, BIO):
        assert (array == expected).all()
        array[:] = True
    assert all((array == expected).all() for array, expected in zip(crf.constraints, BIO))
    assert CRF(3).constraints is None


@pytest.mark.parametrize('compiled', ['graph', 'native pynative'], indirect=True)
def test_attributes_parameters_may_be_shared_until_there_is_a_graph(compiled):
    """A layer with the parameters of another layer returns the other layer's results.

    After a graph is compiled, assigning a parameter raises an error that names `ops.assign`.
    """
    crf, other = CRF(3), CRF(3)
    crf(EMISSIONS, TAGS)
    for name in ('transitions', 'start_transitions', 'end_transitions'):
        setattr(crf, name, getattr(other, name))
    close(compiled(crf)(EMISSIONS, TAGS), other(EMISSIONS, TAGS).asnumpy())
    ms.jit(crf.normalizer)(EMISSIONS)
    with pytest.raises(AttributeError, match=r'change its values with ops.assign\(layer.transitions, values\)$'):
        crf.transitions = Parameter(ops.zeros((3, 3)), name='transitions')


def test_attributes_a_subclass_sets_attributes_until_it_is_made():
    class Mine(BiLSTM_CRF):
        def __init__(self):
            super().__init__(5, 2, 4, 3)
            self.crf = CRF(3, batch_first=True, reduction='mean')
            self.factor = 2

    mine = Mine()
    assert mine.crf.reduction == 'mean'
    for name in ('crf', 'factor', 'lstm'):
        with pytest.raises(AttributeError, match='make a new Mine$'):
            setattr(mine, name, 3)
    mine.something_else = 3


def test_attributes_parameters_of_another_size_are_named(compiled):
    """If a parameter has changed its shape, calls raise an error with the parameter's name and both shapes."""
    crf, lstm = CRF(3), bilstm.BiLSTM(3, 4)
    crf.transitions.set_data(ops.zeros((2, 3)), slice_shape=True)
    for call in (lambda: crf(EMISSIONS, TAGS), lambda: crf.marginals(EMISSIONS), lambda: crf.entropy(EMISSIONS)):
        with pytest.raises(ValueError, match=r'transitions must have shape \(3, 3\) for num_tags = 3, got \(2, 3\)'):
            call()
    with pytest.raises(ValueError, match=r'transitions must have shape \(3, 3\) for num_tags = 3, got \(2, 3\)'):
        compiled(crf.decode)(EMISSIONS)
    lstm.forward_lstm.w_hh_list[0].set_data(ops.zeros((4, 2)), slice_shape=True)
    with pytest.raises((RuntimeError, ValueError)):
        lstm(EMISSIONS, LENGTHS).asnumpy()


@pytest.mark.parametrize('head', [CRF, Softmax])
def test_attributes_paths_of_another_shape_are_named(head, compiled):
    for paths, message in ((int_tensor(np.zeros((9, 4))), r'paths must be \(batch, length\) = \(4, 4\), got shape'),
                           (EMISSIONS[:, :, 0], 'paths must be a tensor of integers, got Float32')):
        with pytest.raises((ValueError, TypeError), match=message):
            compiled(head(3).path_posteriors)(EMISSIONS, paths)


def test_attributes_types_of_parameters(compiled):
    """Parameters in float16 have the same loss as the same values in float32."""
    crf, rounded = CRF(3), CRF(3)
    for parameter, same in zip(crf.get_parameters(), rounded.get_parameters()):
        parameter.set_dtype(ms.float16)
        same.set_data(parameter.astype(ms.float32))
    crf.to_float(ms.float16)
    close(compiled(crf)(EMISSIONS, TAGS, LENGTHS), rounded(EMISSIONS, TAGS, LENGTHS).asnumpy())
