"""Tests which objects a tagger accepts as sentences, and how a long list of sentences is divided into chunks."""

from ms_crf import Tagger
from ms_crf.formats.lines import CHUNK, chunks
from ms_crf.models import mindir
from ms_crf.models.base import SentenceError

import numpy as np
import pytest

from support.runs import SENTENCES, make_run


@pytest.fixture(scope='module')
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp('runs') / 'run', char='none')


@pytest.fixture(scope='module')
def tagger(run):
    return Tagger.load(run)


@pytest.mark.slow
def test_sentences_that_give_their_tokens_one_by_one(tagger):
    expected = tagger.tag(SENTENCES)
    for given in (map(iter, SENTENCES), ((token for token in tokens) for tokens in SENTENCES), map(tuple, SENTENCES),
                  map(np.array, filter(None, SENTENCES))):
        found = tagger.tag(given)
        assert found == [tagged for tagged in expected if tagged.tokens or len(found) == len(expected)]
    assert {type(token) for tagged in tagger.tag(np.array([['to', 'Xan']])) for token in tagged.tokens} == {str}


@pytest.mark.parametrize('sentences,message', [
    (None, 'sentences must be lists of tokens, got None'), ([None], 'sentence 0 must be a list of strings, got None'),
    ([{'to', 'in'}], 'sentence 0 must be'), ([{'to': 1}], 'sentence 0 must be'), ([b'to'], 'sentence 0 must be'),
    ([iter(['to', 2])], "got ['to', 2]"), ([np.array([1, 2])], 'sentence 0 must be')])
def test_sentences_what_is_no_sentence(tagger, sentences, message):
    with pytest.raises(TypeError) as raised:
        tagger.tag(sentences)
    assert message in str(raised.value) and '\n' not in str(raised.value)


@pytest.mark.slow
def test_sentences_a_sentence_too_long_for_a_graph_is_named(run, tmp_path):
    mindir.export(run, tmp_path / 'a.mindir', static=[2, 4])
    sentences = [['to'], [], ['in'] * 4] * CHUNK + [[], ['to'] * 5, ['to'] * 9]
    with pytest.raises(SentenceError, match='up to 4 tokens, got 5') as raised:
        Tagger.load(tmp_path / 'a.mindir').tag(sentences)
    assert raised.value.index == 3 * CHUNK + 1


@pytest.mark.parametrize('size', [1, 30, 41, 70000])
def test_sentences_chunks_are_cut_once(size):
    """Checks the size of chunks, and that dividing a chunk again leaves it unchanged."""
    items = [['to'] * size] * 5000
    found = list(chunks(items[:5000 if size < 1000 else 3]))
    assert sum(found, []) == items[:5000 if size < 1000 else 3]
    assert all(len(list(chunks(chunk))) == 1 for chunk in found)
    assert all(len(chunk) == 1 or (len(chunk) <= CHUNK and len(chunk) * size <= 65536) for chunk in found)
    assert list(chunks([None, ['a'], None, None, ['b'], ['c']])) == [[['a']], [['b'], ['c']]]
