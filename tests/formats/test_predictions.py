"""Checks that the output of a tagger stays a prediction in annotation tools, and that ids and other fields are kept.

The exports have the layout of Label Studio 1.13 (JSON), doccano 1.8 (JSONL) and Prodigy 1.11 (db-out).
"""

import json

from ms_crf import Tagger
from ms_crf.cli import convert, infer, suggest
from ms_crf.formats.registry import read_corpus
from ms_crf.models.opening import open_model
from ms_crf.runs.run import SavedRun

import pytest

TEXT = 'of Xan Yan to Yel'


def region(start, end, label, **names):
    names = {'from_name': 'ner', 'to_name': 'sentence', 'type': 'labels', **names}
    return {'value': {'start': start, 'end': end, 'text': TEXT[start:end], names['type']: [label]}, 'id': 'EEyq2k4ygn',
            **names, 'origin': 'manual'}


def annotation(number, *regions, **fields):
    return {'id': number, 'completed_by': 1, 'result': list(regions), 'was_cancelled': False, 'ground_truth': False,
            'created_at': '2025-04-12T02:37:12.266779Z', 'updated_at': '2025-04-12T02:37:12.266779Z',
            'lead_time': 13.014, 'prediction': {}, 'result_count': 2, 'unique_id': '39024dba', 'import_id': None,
            'last_action': None, 'task': 7, 'project': 3, 'updated_by': 1, 'parent_prediction': None,
            'parent_annotation': None, 'last_created_by': None, **fields}


def task(number, annotations, predictions=(), **data):
    return {'id': number, 'annotations': list(annotations), 'file_upload': 'cfd61273-train.json', 'drafts': [],
            'predictions': list(predictions), 'data': {'sentence': TEXT, **data}, 'meta': {'batch': 'b2'},
            'created_at': '2025-04-12T02:36:31.274078Z', 'updated_at': '2025-04-12T02:37:12.292Z', 'inner_id': 1,
            'total_annotations': 1, 'cancelled_annotations': 0, 'total_predictions': 0, 'comment_count': 0,
            'project': 3, 'updated_by': 1, 'comment_authors': []}


OTHER_MODEL = {'id': 5, 'result': [region(0, 2, 'LOC')], 'score': 0.5, 'model_version': 'other', 'task': 7}
ANNOTATED = task(7, [annotation(11, was_cancelled=True), annotation(12, region(3, 10, 'PER'))], [OTHER_MODEL], doc=4)
WAITING = task(8, [], [OTHER_MODEL], doc=5)
DOCCANO = {'id': 7, 'text': TEXT, 'label': [[3, 10, 'PER']], 'url': 'a/b', 'Comments': []}
PRODIGY = {'text': TEXT, 'meta': {'source': 'news'}, '_input_hash': 1, '_task_hash': 2, '_is_binary': False,
           'tokens': [{'text': TEXT[start:end], 'start': start, 'end': end, 'id': index, 'ws': True}
                      for index, (start, end) in enumerate([(0, 2), (3, 6), (7, 10), (11, 13), (14, 17)])],
           '_view_id': 'ner_manual', 'spans': [{'start': 3, 'end': 10, 'token_start': 1, 'token_end': 2,
                                                'label': 'PER'}],
           'answer': 'accept', '_timestamp': 1700000000, '_annotator_id': 'a', '_session_id': 'a'}
LINES = {'id': 'x1', 'source': {'page': 3}, 'tokens': TEXT.split(), 'tags': ['O', 'B-PER', 'I-PER', 'O', 'O']}


@pytest.fixture
def call(capfd, tmp_path, monkeypatch):
    """Runs a command in this process, in an empty folder, and returns its lines on standard error."""
    monkeypatch.chdir(tmp_path)

    def run(command, *arguments, status=0):
        capfd.readouterr()
        assert command.main([str(argument) for argument in arguments]) == status, capfd.readouterr()
        return capfd.readouterr().err.splitlines()
    return run


def write(name, *records):
    """Writes a JSON file.

    A name in .json gives an array, as Label Studio exports it. Any other name gives one record per line.
    """
    with open(name, 'w', encoding='utf-8') as file:
        file.write(json.dumps(records, indent=2) if name.endswith('.json') else ''.join(
            json.dumps(record) + '\n' for record in records))


def read(name):
    with open(name, encoding='utf-8') as file:
        text = file.read()
    return json.loads(text) if name.endswith('.json') else [json.loads(line) for line in text.splitlines()]


def regions(entry):
    return [(result['value']['start'], result['value']['end'], *result['value'][result['type']])
            for result in entry['result']]


def spans(sentence):
    """Returns the predicted spans of TEXT as (start, end, type), in characters."""
    starts = [0, 3, 7, 11, 14]
    return [(starts[span.first], starts[span.last] + len(TEXT.split()[span.last]), span.type)
            for span in sentence.spans]


@pytest.fixture
def tagged(run):
    return Tagger.load(run).tag([TEXT.split()])[0]


@pytest.mark.parametrize('options', [(), ('--no-confidence',)])
def test_predictions_what_infer_writes_is_a_prediction(call, run, tagged, options):
    with open('in.txt', 'w') as file:
        file.write(TEXT + '\n')
    call(infer, '--run', run, '--input', 'in.txt', '--format', 'json', '--output', 'out.jsonl', *options)
    version = f'{run.name}@{SavedRun.open(run).digest[:12]}'
    assert read('out.jsonl')[0]['model_version'] == version
    call(convert, 'out.jsonl', 'tasks.json', '--to', 'label-studio')
    one, = read('tasks.json')
    prediction, = one['predictions']
    assert 'annotations' not in one and one['data'] == {'text': TEXT} and regions(prediction) == spans(tagged)
    assert prediction['model_version'] == version and ('score' in prediction) == (not options)
    assert options or prediction['score'] == pytest.approx(tagged.confidence, abs=1e-6)
    call(convert, 'out.jsonl', 'gold.json', '--to', 'label-studio', '--as', 'annotations')
    one, = read('gold.json')
    assert 'predictions' not in one and list(map(regions, one['annotations'])) == [spans(tagged)]

    call(convert, 'out.jsonl', 'p.jsonl', '--to', 'prodigy')
    record, = read('p.jsonl')
    assert 'answer' not in record and record['meta']['model_version'] == version
    call(convert, 'p.jsonl', 'again.json', '--to', 'label-studio')
    assert [list(map(regions, one['predictions'])) for one in read('again.json')] == [[spans(tagged)]]
    write('answered.jsonl', {**record, 'answer': 'accept'})
    call(convert, 'answered.jsonl', 'again.json', '--to', 'label-studio')
    assert 'predictions' not in read('again.json')[0]

    call(convert, 'out.jsonl', 'd.jsonl', '--to', 'doccano')
    record, = read('d.jsonl')
    assert record['model_version'] == version and record['label'] == list(map(list, spans(tagged)))
    write('exported.jsonl', {'id': 1, **record, 'Comments': []})  # as doccano exports annotations
    for name, kind in (('d.jsonl', 'predictions'), ('exported.jsonl', 'annotations')):
        call(convert, name, 'again.json', '--to', 'label-studio')
        assert [kind in one for one in read('again.json')] == [True]


def test_predictions_tagged_by_a_version_that_did_not_name_the_model(call):
    """Checks that output of versions that did not record the model version is read as predictions.

    Confidences, or entities with token indices, show that a tagger wrote a record.
    """
    entity = {'type': 'PER', 'text': 'Xan', 'first': 0, 'last': 0, 'start': 0, 'end': 3}
    machine = {'text': 'Xan', 'tokens': ['Xan'], 'tags': ['B-PER'], 'entities': [entity]}
    people = [{'text': 'Xan', 'tokens': ['Xan'], 'tags': ['B-PER'], **more}
              for more in ({}, {'entities': [[0, 3, 'PER']]}, {'model': 'T'}, {'confidence': 'high'})]
    write('in.jsonl', machine, {**machine, 'entities': [], 'tags': ['O']}, {**people[0], 'confidence': 0.25}, *people)
    call(convert, 'in.jsonl', 'out.json', '--to', 'label-studio')
    assert [[name for name in ('annotations', 'predictions') if name in one] for one in read('out.json')] == (
        [['predictions']] * 3 + [['annotations']] * 4)
    assert read('out.json')[2]['predictions'][0]['score'] == 0.25
    call(convert, 'in.jsonl', 'out.json', '--to', 'label-studio', '--as', 'predictions')
    assert all('annotations' not in one for one in read('out.json'))


def test_predictions_an_export_of_label_studio_is_read_by_its_annotations(call):
    """Checks that only annotations that were not cancelled become gold tags; predictions do not."""
    write('in.json', ANNOTATED, WAITING)
    lines = call(convert, 'in.json', 'out.jsonl', '--to', 'tokens')
    assert read('out.jsonl') == [{'id': 7, 'meta': {'batch': 'b2'}, 'doc': 4, 'text': TEXT, 'tokens': TEXT.split(),
                                  'tags': LINES['tags']}]
    assert lines[0] == (f'in.json: 1 text skipped, not annotated yet; the first, at line {ANNOTATED_LINES}, record 2: '
                        f"'{TEXT}'")
    assert [sentence.tags for sentence in read_corpus('in.json')] == [LINES['tags']]


ANNOTATED_LINES = len(json.dumps(ANNOTATED, indent=2).splitlines()) + 2


def test_predictions_a_task_goes_through_convert(call):
    """Checks that conversion to Label Studio keeps a task unchanged, except for the cancelled annotation."""
    write('in.json', ANNOTATED)
    call(convert, 'in.json', 'out.json', '--to', 'label-studio')
    one, = read('out.json')
    result, = one['annotations'][0].pop('result')
    expected = {**region(3, 10, 'PER'), 'id': '1-1'}
    del expected['origin']
    assert result == expected
    rest = json.loads(json.dumps(ANNOTATED))
    del rest['annotations'][1]['result'], rest['annotations'][0]
    assert one == rest


def test_predictions_other_names_and_types_of_results(call):
    """Checks the names and the type of results for Label Studio.

    They are copied from the input, also to tasks without results. Options override the input.
    """
    names = {'from_name': 'l', 'to_name': 't', 'type': 'hypertextlabels'}
    write('in.json', task(1, [annotation(1)]), task(2, [annotation(2, region(3, 10, 'PER', **names))]))
    for options, expected in (((), names), (('--from-name', 'x', '--label-type', 'labels'),
                                            {**names, 'from_name': 'x', 'type': 'labels'})):
        call(convert, 'in.json', 'out.json', '--to', 'label-studio', *options)
        result, = read('out.json')[1]['annotations'][0]['result']
        assert {name: result[name] for name in names} == expected and result['value'][expected['type']] == ['PER']
    write('d.jsonl', DOCCANO)
    call(convert, 'd.jsonl', 'out.json', '--to', 'label-studio', '--to-name', 'content')
    result, = read('out.json')[0]['annotations'][0]['result']
    assert (result['from_name'], result['to_name'], result['type']) == ('label', 'content', 'labels')


@pytest.mark.parametrize('record,kept', [
    (DOCCANO, {'id': 7, 'url': 'a/b', 'Comments': []}), (PRODIGY, {'meta': {'source': 'news'}}),
    (LINES, {'id': 'x1', 'source': {'page': 3}}), (ANNOTATED, {'id': 7, 'meta': {'batch': 'b2'}, 'doc': 4})])
def test_predictions_ids_and_other_fields_go_through_convert(call, record, kept):
    """Checks that ids and other fields are kept in each JSON format.

    The same fields are kept in a second conversion, to Label Studio, where "data" holds them.
    """
    write('in.json', record)
    for kind in ('doccano', 'prodigy', 'tokens'):
        call(convert, 'in.json', f'{kind}.jsonl', '--to', kind, '--splitter', 'blanks')
        found, = read(f'{kind}.jsonl')
        assert {**found, **kept} == found
        if record is PRODIGY:
            assert any(name.startswith('_') for name in found) == (kind == 'prodigy')
        call(convert, f'{kind}.jsonl', 'back.json', '--to', 'label-studio')
        one, = read('back.json')
        assert one.get('meta', one['data'].get('meta')) == kept.get('meta')
        assert {name: one['data'][name] for name in kept if name != 'meta'} == {
            name: value for name, value in kept.items() if name != 'meta'}
        assert one['id'] == (kept['id'] if isinstance(kept.get('id'), int) else 1)
        assert regions(one['annotations'][0]) == [(3, 10, 'PER')]


def test_predictions_what_has_no_place_for_other_fields_says_so(call):
    write('in.jsonl', DOCCANO)
    for name in ('out.tsv', 'out.conllu', 'out/'):
        assert call(convert, 'in.jsonl', name)[0] == (
            'in.jsonl: 1 text written without "id" and other fields, '
            'which the output format cannot hold; the first, at line '
            f"1: '{TEXT}'")
    write('in.jsonl', {'tokens': ['Xan'], 'tags': ['O'], 'model_version': 'm'})
    assert call(convert, 'in.jsonl', 'out.tsv')[0] == (
        "in.jsonl: 1 text tagged by a model, treated as annotated text; the first, at line 1: 'Xan'")


@pytest.mark.parametrize('record', [ANNOTATED, WAITING, DOCCANO, PRODIGY, LINES])
def test_predictions_exports_are_tagged_and_keep_their_fields(call, run, tagged, record):
    """Checks that infer.py tags exports of tools and keeps all other fields.

    In Label Studio tasks, the annotations of people stay next to the predictions.
    """
    write('in.json', record)
    call(infer, '--run', run, '--input', 'in.json', '--format', 'json', '--output', 'out.jsonl')
    found, = read('out.jsonl')
    assert (found['text'], found['tokens'], found['tags']) == (TEXT, TEXT.split(), tagged.tags)
    dropped = {'tokens', 'tags', 'text'}
    assert {name: value for name, value in record.items() if name not in dropped} == {
        name: found[name] for name in record if name not in dropped}
    call(convert, 'out.jsonl', 'tasks.json', '--to', 'label-studio')
    one, = read('tasks.json')
    assert regions(one['predictions'][-1]) == spans(tagged)
    if 'data' in record:
        result = one['predictions'].pop()['result']
        assert {result[0][name] for name in ('from_name', 'to_name')} == {'ner', 'sentence'}
        assert one == record


def test_predictions_tagged_again_by_the_same_model(call, run):
    """Checks that a model replaces its own earlier prediction and keeps the predictions of other models.

    For JSON from infer.py, no field of the earlier output remains.
    """
    write('in.json', ANNOTATED)
    for _ in range(2):
        call(infer, '--run', run, '--input', 'in.json', '--format', 'json', '--output', 'out.jsonl')
        call(convert, 'out.jsonl', 'in.json', '--to', 'label-studio')
    assert [entry['model_version'] for entry in read('in.json')[0]['predictions']] == ['other', open_model(run).version]
    write('in.jsonl', {'tokens': ['Xan'], 'tags': ['O'], 'model_version': 'm', 'confidence': 0.1, 'confidences': [0.1],
                       'alternatives': [], 'id': 3})
    call(infer, '--run', run, '--input', 'in.jsonl', '--format', 'json', '--no-confidence', '--output', 'out.jsonl')
    assert set(read('out.jsonl')[0]) == {'id', 'gold', 'text', 'tokens', 'tags', 'entities', 'model_version'}


def test_predictions_fields_of_what_is_scored(call, run):
    write('in.json', ANNOTATED)
    call(infer, '--run', run, '--input', 'in.json', '--score', '--format', 'json', '--output', 'out.jsonl')
    assert (read('out.jsonl')[0]['id'], read('out.jsonl')[0]['doc']) == (7, 4)


@pytest.mark.parametrize('kind', ['label-studio', 'doccano', 'prodigy', 'tokens'])
@pytest.mark.parametrize('record', [WAITING, DOCCANO, PRODIGY, LINES])
def test_predictions_suggestions_are_predictions_with_the_fields_of_their_records(call, run, tagged, record, kind):
    write('in.json', record)
    call(suggest, '--run', run, '--input', 'in.json', '--format', kind, '--output', 'out.json')
    with open('out.json') as file:
        found = json.load(file)
    if kind == 'label-studio':
        one, = found
        prediction = one['predictions'][-1]
        assert regions(prediction) == spans(tagged)
        assert prediction['score'] == pytest.approx(tagged.confidence, abs=1e-6)
        found = {**prediction, **one['data']}
        assert TEXT in one['data'].values() and not one.get('annotations')
    else:
        assert found.get('text', TEXT) == TEXT and 'answer' not in found
        mark = found['meta'] if kind == 'prodigy' else found
        assert mark['model_version'] == open_model(run).version
    assert record.get('id') in (None, found.get('id'), one['id'] if kind == 'label-studio' else None)
    assert record.get('data', {}).get('doc') == found.get('doc') and record.get('url') == found.get('url')
    call(convert, 'out.json', 'again.json', '--to', 'label-studio', status=2 if (
        kind == 'label-studio') else 0)                          # the tasks have no annotation yet
    if kind != 'label-studio':
        assert regions(read('again.json')[0]['predictions'][0]) == spans(tagged)


def test_predictions_names_of_label_studio_in_suggestions(call, run):
    write('in.jsonl', DOCCANO)
    call(suggest, '--run', run, '--input', 'in.jsonl', '--format', 'label-studio', '--output', 'o.json', '--from-name',
         'ner')
    assert {result['from_name'] for result in read('o.json')[0]['predictions'][0]['result']} == {'ner'}


@pytest.mark.parametrize('fields', [{'model_version': 'm'}, {'confidence': 0.5}, {'confidence': 10 ** 400}],
                         ids=['model', 'confidence', 'long'])
def test_predictions_training_says_that_a_model_has_tagged_its_text(call, fields):
    write('in.jsonl', {'tokens': ['Xan'], 'tags': ['O'], **fields}, LINES)
    remarks = []
    assert len(read_corpus('in.jsonl', report=remarks.append)) == 2
    assert [(remark.kind, remark.line) for remark in remarks] == [('predicted', 1)]


@pytest.mark.parametrize('command,arguments,message', [
    (convert, 'in.jsonl out.tsv --as predictions', '--as has no effect with --to columns, which has no predictions; '
                                                   'omit it'),
    (convert, 'in.jsonl o.jsonl --to doccano --from-name x', '--from-name has no effect with --to doccano; omit '
                                                             'it'),
    (convert, 'in.jsonl o.json --to label-studio --label-type=', '--label-type must be a name, got nothing'),
    (suggest, '--input in.jsonl --to-name x', '--to-name has no effect with --format tokens; omit it')])
def test_predictions_options_without_effect(call, command, arguments, message):
    write('in.jsonl', DOCCANO)
    line, = call(command, *arguments.split(), status=2)
    assert line == f'ms-crf {command.__name__.rpartition(".")[2]}: {message}'
