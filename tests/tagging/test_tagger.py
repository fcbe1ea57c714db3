"""Tests `Tagger` and exported graphs.

The oracle for tags and confidences is the enumeration of all paths of short sentences. Runs and graphs must agree.
"""

import hashlib
import json
import math
import pickle
import random
import shutil

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.formats.lines import CHUNK
from ms_crf.models import mindir
from ms_crf.models.words.network import GATES_BYTES
from ms_crf.native import library
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.text.schemes import spans_of

import mindspore as ms
import numpy as np
import pytest

from support.runs import SENTENCES, TAGS, WORDS, make_run, rows_of

SIMPLE = {'head': 'softmax'}               # a network whose graph is exported in two seconds


def check_beside_enumeration(tagged, row, names, written=list):
    """Compares tags and confidences with the enumeration of all paths of a sentence.

    Args:
        tagged: the result of a tagger.
        row: all paths of the sentence, with their scores.
        names: the tags of the model, by index.
        written: a function that converts tags of the model to the scheme of the tagger.
    """
    weights = np.exp(row.scores - row.log_normalizer())
    best = row.best()
    assert tagged.tags == written([names[tag] for tag in best])
    assert tagged.confidence == pytest.approx(weights.max(), rel=1e-4)
    assert tagged.confidences == pytest.approx(row.marginals()[np.arange(row.length), best], rel=1e-4)
    spans = [] if names == TAGS['plain'] else spans_of(tagged.tags)
    assert [span[:3] for span in tagged.spans] == spans
    for span in tagged.spans:
        inside = [span[:3] in spans_of([names[tag] for tag in path]) for path in row.paths]
        assert span.confidence == pytest.approx(weights[inside].sum(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize('scheme,options', [
    ('BIO', {}), ('BIOES', {'char': 'none', 'bigrams': True}), ('BMES', {}), ('plain', {'char': 'lstm'}),
    ('BIO', {'ngrams': True}), ('BIO', {'ngrams': True, 'bigrams': True, 'char': 'none'})])
def test_tagger_confidences_are_posteriors(run_of, scheme, options):
    run = run_of(scheme, **options)
    tagger = Tagger.load(run)
    found = tagger.tag(SENTENCES, nbest=3)
    assert [tagged.tokens for tagged in found] == SENTENCES
    for tagged, row in zip(found, rows_of(run, scheme)):
        if row is None:
            assert (tagged.tokens, *tagged.prediction) == ([], [], [], [], 1.0, (([], 1.0),))
            continue
        check_beside_enumeration(tagged, row, TAGS[scheme])
        expected = np.exp(row.ranked() - row.log_normalizer())[:3]
        assert [other.confidence for other in tagged.alternatives] == pytest.approx(expected, rel=1e-4)
        assert tagged.alternatives[0].tags == tagged.tags


WRITTEN = {'B': 'B', 'S': 'B', 'I': 'I', 'E': 'I'}         # from prefixes of BIOES to prefixes of BIO


def written(tags):
    """Converts tags from BIOES to BIO."""
    return [tag if tag == 'O' else f'{WRITTEN[tag[0]]}{tag[1:]}' for tag in tags]


@pytest.fixture(scope='module')
def run_in_two_schemes(run_of, tmp_path_factory):
    """Returns a run whose model predicts BIOES, and whose tags are returned in BIO."""
    run = shutil.copytree(run_of('BIOES', char='none', bigrams=True), tmp_path_factory.mktemp('schemes') / 'run')
    records.write_json(run / 'config.json', {**SavedRun.open(run).config, 'written_scheme': 'BIO'})
    return run


def test_tagger_tags_come_out_in_the_scheme_that_the_run_names(run_of, run_in_two_schemes):
    """Checks that spans and confidences in BIO are the same as in the model's BIOES."""
    model, tagger = Tagger.load(run_of('BIOES', char='none', bigrams=True)), Tagger.load(run_in_two_schemes)
    assert (tagger.scheme, tagger.model_scheme, model.scheme) == ('BIO', 'BIOES', 'BIOES')
    assert sorted(tagger.tags) == ['B-X', 'I-X', 'O']
    of_model = model.tag(SENTENCES, nbest=4)
    assert {tag[0] for tagged in of_model for tag in tagged.tags} & {'E', 'S'}
    for found, expected in zip(tagger.tag(SENTENCES, nbest=4), of_model):
        assert found.tags == written(expected.tags) and found.spans == expected.spans
        assert (found.confidences, found.confidence) == (expected.confidences, expected.confidence)
        assert found.alternatives == tuple((written(tags), share) for tags, share in expected.alternatives)


@pytest.mark.slow
def test_tagger_no_more_taggings_than_there_are(run_of):
    run, n = run_of(char='none'), np.int64(1000)
    for tagged, row in zip(Tagger.load(run).tag(SENTENCES, nbest=n), rows_of(run, 'BIO')):
        if row is None:
            continue
        weights = np.exp(row.ranked() - row.log_normalizer())[:n]
        assert [other.confidence for other in tagged.alternatives] == pytest.approx(weights, rel=1e-4, abs=1e-12)
        assert len({tuple(other.tags) for other in tagged.alternatives}) == len(weights)


@pytest.mark.slow
@pytest.mark.skipif(library.find().path is None, reason=library.find().reason)
@pytest.mark.parametrize('most', [GATES_BYTES, 1])
def test_tagger_gates_of_forms_that_are_computed_beforehand(run_of, monkeypatch, most):
    """Checks tags and confidences when the LSTM gates of distinct word forms are computed in advance.

    The network does this for long input if the gates fit into memory. In the second case, the memory is too small.
    """
    run = run_of()
    monkeypatch.setattr('ms_crf.models.words.network.GATES_FORMS', (1, 8))
    monkeypatch.setattr('ms_crf.models.words.network.GATES_BYTES', most)
    tagger = Tagger.load(run)
    for tagged, row in zip(tagger.tag(SENTENCES), rows_of(run, 'BIO')):
        if row is not None:
            check_beside_enumeration(tagged, row, TAGS['BIO'])
    (method, *_), = tagger.decoder._functions
    assert method.__name__ == ('emissions_of_gates' if most > 1 else 'emissions_of')


@pytest.mark.slow
@pytest.mark.parametrize('options', [{'char': 'none'}, {'head': 'softmax', 'char': 'none'}])
def test_tagger_a_temperature_divides_all_scores(run_of, options):
    run, temperature = run_of(**options), 2.5
    tagger = Tagger.load(run, temperature=temperature)
    usual = [[TAGS['BIO'][tag] for tag in row.best()] if row else [] for row in rows_of(run, 'BIO')]
    for again in (tagger, pickle.loads(pickle.dumps(tagger))):
        found = again.tag(SENTENCES, nbest=2)
        assert [tagged.tags for tagged in found] == usual
        for tagged, row in zip(found, rows_of(run, 'BIO', temperature)):
            if row is not None:
                weights = np.exp(row.ranked() - row.log_normalizer())[:2]
                assert [other.confidence for other in tagged.alternatives] == pytest.approx(weights, rel=1e-4)
                assert tagged.confidences == pytest.approx(
                    row.marginals()[np.arange(row.length), row.best()], rel=1e-4)


@pytest.mark.slow
def test_tagger_what_has_no_temperature(graph, run_of):
    with pytest.raises(OptionError, match='^temperature must be 1 for an exported graph, got 2; load the run itself$'):
        Tagger.load(graph / 'a.mindir', temperature=2)
    for wrong in (0, 0.001, 101, math.nan, True, '1'):
        with pytest.raises(ValueError, match='^temperature must be a number from 0.01 to 100, got '):
            Tagger.load(run_of(char='none'), temperature=wrong)


@pytest.mark.parametrize('n', [-1, 1001, True, 2.0, '2', None])
def test_tagger_faults_of_nbest(run_of, n):
    with pytest.raises(ValueError, match='nbest must be a whole number from 0 to 1000, got'):
        Tagger.load(run_of(char='none')).tag(SENTENCES, nbest=n)


@pytest.mark.slow
def test_tagger_confidences_of_a_graph_and_its_scheme(run_in_two_schemes, exported):
    """Checks an exported graph of a model in BIOES whose tags are returned in BIO, against all paths."""
    tagger = Tagger.load(exported(run_in_two_schemes, 'confidences'))
    assert (tagger.scheme, tagger.model_scheme) == ('BIO', 'BIOES')
    for tagged, row in zip(tagger.tag(SENTENCES), rows_of(run_in_two_schemes, 'BIOES')):
        if row is not None:
            check_beside_enumeration(tagged, row, TAGS['BIOES'], written)


@pytest.mark.slow
def test_tagger_confidences_of_a_softmax_head(run_of):
    run = run_of(head='softmax', char='none')
    for tagged, row in zip(Tagger.load(run).tag(SENTENCES, nbest=2), rows_of(run, 'BIO')):
        if row is None:
            continue
        assert tagged.tags == [TAGS['BIO'][tag] for tag in row.best()]
        assert tagged.confidence == pytest.approx(np.exp(row.scores.max() - row.log_normalizer()), rel=1e-4)
        assert [other.confidence for other in tagged.alternatives] == pytest.approx(
            np.exp(row.ranked() - row.log_normalizer())[:2], rel=1e-4)
        for span in tagged.spans:
            # Sum over all paths with these tags in the span, except paths that continue the span after its end.
            path = [TAGS['BIO'].index(tag) for tag in tagged.tags]
            same = (row.paths[:, span.first:span.last + 1] == path[span.first:span.last + 1]).all(1)
            if span.last + 1 < row.length:
                same &= row.paths[:, span.last + 1] != TAGS['BIO'].index(f'I-{span.type}')
            assert span.confidence == pytest.approx(np.exp(row.scores[same] - row.log_normalizer()).sum(), rel=1e-4)


@pytest.fixture(scope='module')
def many():
    """Returns sentences of many lengths; some are long and some are empty."""
    rng = random.Random(0)
    words = WORDS + ['a' * 40, 'new', 'Xanadu', '1990', '中']
    lengths = [0, 1, 2, 3, 5, 16, 17, 24, 25, 33, 64, 100, 150] * 6 + [300]
    return [rng.choices(words, k=length) for length in rng.sample(lengths, len(lengths))]


@pytest.mark.slow
@pytest.mark.parametrize('options,output,static', [
    ({}, 'paths', None), ({'ngrams': True}, 'emissions', None),
    ({'ngrams': True, 'bigrams': True, 'char': 'none'}, 'paths', (4, 30))])
def test_tagger_run_and_graph_give_the_same_tags(run_of, exported, many, options, output, static):
    run = run_of(**options)
    found = Tagger.load(run).tag(many, False)
    assert all(tagged.confidence is None and tagged.confidences is None for tagged in found)
    expected = [tagged.tags for tagged in found]
    assert [len(tags) for tags in expected] == [len(tokens) for tokens in many]
    assert len({tag for tags in expected for tag in tags}) > 2
    tagger = Tagger.load(exported(run, output, static))
    if static:
        with pytest.raises(OptionError, match=r'sentence \d+: the graph takes sentences of up to 30 tokens, got '):
            tagger.tag(many)
        expected = [tags for tags in expected if len(tags) <= 30]
        many = [tokens for tokens in many if len(tokens) <= 30]
    assert [tagged.tags for tagged in tagger.tag(many)] == expected
    for size in (1, 3, 50):                                      # other batch sizes
        assert [tagged.tags for tagged in tagger.tag(many[:size])] == expected[:size]


@pytest.mark.slow
def test_tagger_a_graph_run_by_hand_from_its_record(run_of, exported):
    """Checks that an exported graph and its JSON record are sufficient to tag with MindSpore alone.

    The test looks up ids in the lists of the record. The oracle is the tagger of the run.
    """
    path = exported(run_of())
    record = json.loads(path.with_suffix('.json').read_text())
    assert [entry['name'] for entry in record['inputs']] == ['words', 'spellings', 'places', 'lengths']
    assert [entry['name'] for entry in record['outputs']] == ['paths', 'scores']
    graph = ms.nn.GraphCell(ms.load(str(path)))
    graph.set_inputs(*(ms.Tensor(shape=entry['shape'], dtype=getattr(ms, entry['type'])) for entry in record['inputs']))

    def number(item, known):
        return known.index(item) + record['first_id'] if item in known else record['unknown_id']

    tokens = ['to', 'Xan', 'Zoe']
    spellings = [[number(letter, record['characters']) for letter in token] for token in tokens]
    width = record['char_length']
    arrays = [[number(token, record['words']) for token in tokens],
              [ids + [record['padding_id']] * (width - len(ids)) for ids in spellings], [[0, 1, 2, 0]], [3]]
    paths, _ = graph(*(ms.Tensor(np.array(array, np.int32)) for array in arrays))
    tags = [record['tags'][tag] for tag in paths.asnumpy()[0, :3]]
    assert tags == Tagger.load(run_of()).tag([tokens])[0].tags


@pytest.mark.slow
def test_tagger_streams_in_chunks_and_in_order(run_of):
    def sentences():
        for number in range(2 * CHUNK + 10):
            seen.append(number)
            yield ['to', 'Xan'] if number % 3 else []
    seen = []
    stream = Tagger.load(run_of(char='none')).stream(sentences(), confidence=False)
    first = next(stream)
    assert len(seen) == CHUNK + 1 and first.tokens == []
    rest = list(stream)
    assert [tagged.tokens for tagged in rest[:3]] == [['to', 'Xan'], ['to', 'Xan'], []] and len(rest) == 2 * CHUNK + 9


@pytest.mark.parametrize('sentences,error,message', [
    ('to in', TypeError, 'got a string; split it'), (['to in'], TypeError, 'sentence 0 must be a list of strings'),
    ([[], [1]], TypeError, 'sentence 1 must be'), ([['']], ValueError, 'sentence 0 must have no empty token')])
def test_tagger_faults_of_sentences(run_of, sentences, error, message):
    with pytest.raises(error, match=message):
        Tagger.load(run_of(char='none')).tag(sentences)


@pytest.fixture
def graph(run_of, exported, tmp_path):
    """Returns a folder with an exported graph and its JSON record."""
    return shutil.copytree(exported(run_of(**SIMPLE)).parent, tmp_path, dirs_exist_ok=True)


def test_tagger_what_a_graph_does_not_give(run_of, graph):
    tagger = Tagger.load(graph / 'a.mindir')
    assert tagger.tag([['to']])[0].confidence is None
    with pytest.raises(OptionError, match='^confidence must be False for a graph'):
        tagger.tag([['to']], confidence=True)
    with pytest.raises(OptionError, match='^nbest must be 0 for a model'):
        tagger.tag([['to']], nbest=2)
    with pytest.raises(OptionError, match='emissions can only be exported from a run with the head crf'):
        mindir.export(run_of(**SIMPLE), graph / 'b.mindir', 'emissions')
    assert not (graph / 'b.mindir').exists()


def half(data):
    return data[:len(data) // 2]


def other_bytes(data):
    return bytes(len(data))


@pytest.mark.parametrize('name,change,message', [
    ('config.json', None, 'no such file; expected a run made by training'),
    ('config.json', half, 'expected JSON as training writes it'),
    ('config.json', b'[]', 'expected a JSON object, got list'),
    ('config.json', b'{"options": {}, "format": 7}', 'it was written by another version of ms_crf'),
    ('config.json', b'{"options": {"hidden": 5}, "format": 1, "model": "bilstm", "word_dim": 6, "scheme": "BIO", '
                    b'"found_scheme": "BIO"}', 'hidden must be even'),
    ('config.json', b'{"options": {}, "format": 1, "model": "bilstm", "word_dim": "x", "scheme": "BIO", '
                    b'"found_scheme": "BIO"}', '"word_dim" to be a whole number, got'),
    ('config.json', b'{"options": {}, "format": 1, "model": "bilstm", "word_dim": 6, "scheme": "X"}', '"scheme" to be'),
    ('config.json', b'{"options": {}, "format": 1, "model": "bilstm", "word_dim": 7, "scheme": "BIO", '
                    b'"found_scheme": "BIO"}', 'weights.ckpt: expected word_table of shape'),
    ('vocab.json', None, 'no such file'), ('vocab.json', b'\xff', 'expected JSON'),
    ('vocab.json', b'{}', 'expected the keys words, characters, bigrams, ngrams, tags'),
    ('weights.ckpt', None, 'weights.ckpt: no such file'), ('weights.ckpt', half, 'expected tensors as training writes'),
    ('weights.ckpt', other_bytes, 'expected tensors as training writes them'),
])
def test_tagger_damaged_runs(tmp_path, name, change, message, capfd):
    file = make_run(tmp_path / 'run') / name
    (tmp_path / 'run' / 'checksums.json').unlink()               # like a run of an earlier version
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()) if callable(change) else change)
    with pytest.raises((CorpusError, OptionError)) as raised:
        Tagger.load(tmp_path / 'run')
    assert message in str(raised.value) and str(tmp_path) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1 and capfd.readouterr() == ('', '')


@pytest.mark.parametrize('name,change,message', [
    ('a.mindir', None, 'a.mindir: no such file'), ('a.mindir', half, 'got another or a damaged graph'),
    ('a.mindir', b'', 'got another or a damaged graph'), ('a.json', None, 'a.json: no such file'),
    ('a.json', half, 'expected JSON'),
    ('a.json', b'{"format": 9}', '"format" to be 1, got 9; it was written by another'),
])
def test_tagger_damaged_graphs(graph, name, change, message):
    file = graph / name
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()) if callable(change) else change)
    with pytest.raises(CorpusError) as raised:
        Tagger.load(graph / 'a.mindir')
    assert message in str(raised.value) and len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize('key,value,message', [
    ('tags', 3, 'expected "tags" to be a list'), ('scheme', 'X', '"scheme" to be one of'),
    ('static', [1], '"static" to be batch and length'), ('inputs', [], '"inputs" to be words, places'),
    ('sha256', 'x', 'got another or a damaged graph')])
def test_tagger_records_that_were_changed(graph, key, value, message):
    record = json.loads((graph / 'a.json').read_text())
    del record['record_sha256']                  # like a record of an earlier version
    (graph / 'a.json').write_text(json.dumps({**record, key: value}))
    with pytest.raises(CorpusError) as raised:
        Tagger.load(graph / 'a.mindir')
    assert message in str(raised.value)


def test_tagger_a_graph_that_is_none(graph, capfd):
    """Checks a file that is not a graph, with a record that holds the correct checksum of the file."""
    record = json.loads((graph / 'a.json').read_text())
    (graph / 'a.mindir').write_bytes(b'no graph' * 100)
    del record['record_sha256']
    record['sha256'] = hashlib.sha256((graph / 'a.mindir').read_bytes()).hexdigest()
    (graph / 'a.json').write_text(json.dumps(record))
    capfd.readouterr()
    with pytest.raises(CorpusError, match='expected a MindIR graph, got a damaged or encrypted file') as raised:
        Tagger.load(graph / 'a.mindir')
    assert len(str(raised.value).splitlines()) == 1 and capfd.readouterr() == ('', '')


@pytest.mark.slow
def test_tagger_can_be_called_and_shows_what_it_is(run_of, graph):
    tagger = Tagger.load(run_of(**SIMPLE))
    assert tagger(SENTENCES, nbest=2) == tagger.tag(SENTENCES, nbest=2)
    text = 'of Xan\nto Yel'
    assert [sentence.tokens for sentence in tagger.tag_text(text, splitter='blanks')] == [['of', 'Xan'], ['to', 'Yel']]
    tagger.splitter = 'blanks'
    assert tagger(text) == tagger.tag_text(text) and [sentence.start for sentence in tagger(text)] == [0, 7]
    assert repr(tagger) == f"Tagger(bilstm, tags={TAGS['BIO']!r}, path={str(run_of(**SIMPLE))!r})"
    assert repr(Tagger.load(graph / 'a.mindir')).startswith('Tagger(exported graph, tags=[')
