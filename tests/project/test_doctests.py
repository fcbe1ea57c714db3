"""The examples in the docstrings of public classes run and print the shown results."""

import doctest

import ms_crf

import mindspore as ms
import pytest


@pytest.mark.parametrize('name', ['CRF', 'BiLSTM_CRF', 'HMM', 'Tagger'])
def test_doctests_the_example_of_a_public_class_gives_what_it_says(name, request):
    ms.set_seed(1)
    globs = {'run': request.getfixturevalue('undisturbed')[0]} if name == 'Tagger' else {}
    [example] = doctest.DocTestFinder(recurse=False).find(getattr(ms_crf, name), name, globs=globs)
    assert example.examples
    report = []
    result = doctest.DocTestRunner().run(example, out=report.append)
    assert not result.failed, ''.join(report)
