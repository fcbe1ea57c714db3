"""Tests `span_steps`: equal numbers must mean equal spans, and different numbers different spans."""

import itertools

from ms_crf import allowed_transitions, span_steps
from ms_crf.text.schemes import spans_of

import numpy as np
import pytest


@pytest.mark.parametrize('tags', [
    ['O', 'B', 'I'], ['B-X', 'O', 'I-Y', 'I-X'], ['O', 'I-X', 'E-X', 'S-X'], ['M', 'E', 'S', 'B'],
    ['I-X', 'M-X', 'E-Y']])
def test_span_steps_the_same_numbers_stand_for_the_same_spans(tags):
    table = span_steps(tags)
    count = len(tags)
    assert table.shape == (count + 1, count + 1) and table.dtype == np.int32
    assert table.min() >= 0 and table.max() < (count + 1) ** 2
    spans, numbers = {}, {}
    for path in itertools.product(range(count), repeat=5):
        found = tuple(spans_of([tags[tag] for tag in path]))
        steps = tuple(table[list((count, *path)), list((*path, count))].tolist())
        assert spans.setdefault(steps, found) == found
        assert numbers.setdefault(found, steps) == steps


@pytest.mark.parametrize('tags', ['B-X', [1, 2]])
def test_span_steps_tags_must_be_strings(tags):
    with pytest.raises(TypeError, match='tags must be a sequence of strings, got'):
        span_steps(tags)


@pytest.mark.parametrize('scheme,tags', [
    ('BIO', ['O', 'B-X', 'I-X', 'B-Y', 'I-Y']), ('IOB1', ['O', 'B-X', 'I-X', 'B-Y', 'I-Y']),
    ('BIOES', ['O', 'B-X', 'I-X', 'E-X', 'S-X', 'S-Y']), ('BMES', ['B', 'M', 'E', 'S', 'O'])])
def test_span_steps_constrained_to_a_scheme_each_set_of_spans_has_one_tagging(scheme, tags):
    allowed, start, end = allowed_transitions(scheme, tags)
    found = [tuple(spans_of([tags[tag] for tag in path])) for path in itertools.product(range(len(tags)), repeat=5)
             if start[path[0]] and end[path[-1]] and allowed[path[:-1], path[1:]].all()]
    assert len(set(found)) == len(found) > 10
