"""The package uses private names and behaviour of MindSpore. If a release differs, an error of one line explains it."""

import sys

from ms_crf.crf import gradients as functions
from ms_crf.crf import inference
from ms_crf.crf.gradients import check_gradients, check_is_copy, copied
from ms_crf.crf.mindspore_fixes import private

import mindspore as ms
import pytest

from support.tensors import float_tensor, int_tensor


def test_assumptions_a_missing_name_is_named_with_its_purpose():
    with pytest.raises(ImportError) as error:
        private('nothing', 'do this', 'mindspore.graph', 'mindspore.absent')
    assert str(error.value) == (f'MindSpore {ms.__version__} has no nothing in mindspore.graph or mindspore.absent, '
                                'which ms_crf needs to do this; install MindSpore 2.8, 2.9 or 2.10')
    assert private('jit', 'compile', 'mindspore.absent', 'mindspore') is ms.jit


def test_assumptions_copied_functions_are_others_and_find_copies_of_what_they_call():
    copy = copied(functions)
    assert copy is copied(functions) is sys.modules[copy.__name__]
    assert copy.gradient_product is not functions.gradient_product and copy.gradient_product.__globals__ is vars(copy)
    assert copy.pack is copied(inference).pack is not inference.pack
    assert copy.pack.__module__ == f'{inference.__name__}_copied'


def test_assumptions_a_function_that_is_not_a_copy_is_refused():
    scores = float_tensor([[0.0, 1.0], [2.0, 3.0]])
    inputs = float_tensor([[[1.0, 2.0]]]), None, int_tensor([1]), scores, scores[0], scores[1]
    factors = float_tensor([[[1.0, 2.0]]] * 5)
    with pytest.raises(RuntimeError, match='looks up names in a function in the module that function.__module__ names'):
        functions.gradient_product(factors, *inputs)
    assert copied(functions).gradient_product(factors, *inputs).shape == ()
    check_is_copy(True)


@pytest.mark.parametrize('gradients', [((4, 2, 3), (3,), (3, 3), (3,)), ((4, 2, 3), (3, 3), (3,)), ()])
def test_assumptions_gradients_in_another_order_are_refused(gradients):
    inputs = (4, 2, 3), (3, 3), (3,), (3,)
    with pytest.raises(RuntimeError, match=f'order of the inputs.*; MindSpore {ms.__version__} does not'):
        check_gradients(gradients, inputs)


def test_assumptions_gradients_of_all_inputs_may_follow_and_axes_may_be_of_any_size():
    inputs = (-1, 2, 3), (3, 3), (3,), (3,)
    check_gradients(((4, -1, 3), (3, 3), (3,), (3,), (9, 2, 3), (2,)), inputs)
