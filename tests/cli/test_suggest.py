"""Tests `ms-crf suggest`; the oracle is what the model predicts for each sentence alone."""

import json
import math
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.cli import suggest, train
from ms_crf.formats.registry import read_corpus
from ms_crf.models.mindir import export
from ms_crf.models.opening import open_model

import numpy as np
import pytest

from support.paths import ROOT
from support.runs import SENTENCES, TAGS, make_run, rows_of
from support.trainings import files

LINES = ['Xan Yan', 'of Xel Yor in at on', 'of of of of', 'in Zoe Zed', 'Xan Yan', 'of Xel Yor in at by', 'to', '',
         'Yel']


@pytest.fixture
def text(tmp_path):
    path = tmp_path / 'raw.txt'
    path.write_text('\n'.join(LINES) + '\n')
    return path


@pytest.fixture
def call(capsys):
    """Runs the command in this process and returns its exit status, standard output and standard error."""
    def called(*arguments):
        capsys.readouterr()
        status = suggest.main([str(argument) for argument in arguments])
        return (status, *capsys.readouterr())
    return called


def shown(output):
    return [json.loads(line) for line in output.splitlines()]


def test_suggest_what_the_model_is_least_sure_of_comes_first(run, text, call):
    status, output, errors = call('--run', run, '--input', text, '-n', 4, '--near', 1)
    distinct = list(dict.fromkeys(line for line in LINES if line))
    alone = {tagged.confidence: tagged for line in distinct for tagged in Tagger.load(run).tag([line.split()])}
    expected = [alone[confidence] for confidence in sorted(alone)][:4]
    assert status == 0
    assert [(record['tokens'], record['tags']) for record in shown(output)] == [
        (tagged.tokens, tagged.tags) for tagged in expected]
    assert [record['confidence'] for record in shown(output)] == pytest.approx(
        [tagged.confidence for tagged in expected], abs=1e-6)
    assert errors == (f'ms-crf suggest: 4 sentences of 8; least-confidence from {1 - expected[0].confidence:.4f} to '
                      f'{1 - expected[3].confidence:.4f}; left out: 0 known, 1 repeated, 0 near-duplicates among the '
                      'rest\n')


def test_suggest_a_measure_for_each_token(run, text, call):
    output = call('--run', run, '--input', text, '-n', 20, '--near', 1, '--by', 'mnlp')[1]
    found = [-math.log(record['confidence']) / len(record['tokens']) for record in shown(output)]
    assert len(found) == 7 and found == sorted(found, reverse=True)
    assert found != sorted(found) and [record['text'] for record in shown(output)] != [
        record['text'] for record in shown(call('--run', run, '--input', text, '-n', 20, '--near', 1)[1])]


def test_suggest_near_duplicates_and_what_is_known_are_left_out(run, text, tmp_path, call):
    """Checks that known sentences and near-duplicates are left out.

    Two sentences share four of six word pairs, so either of the two is left out. The known sentences are in two files.
    """
    (tmp_path / 'known.tsv').write_text('of\tO\nof\tO\nof\tO\nof\tO\n\n')
    (tmp_path / 'known.jsonl').write_text('{"tokens": ["in", "zoe", "Zed"], "tags": ["O", "B-PER", "I-PER"]}\n')
    status, output, errors = call('--run', run, '--input', text, '--known', tmp_path / 'known.tsv',
                                  tmp_path / 'known.jsonl', '--near', '0.6')
    assert status == 0 and sorted(record['text'] for record in shown(output)) in (
        sorted(['Xan Yan', one, 'to', 'Yel']) for one in (LINES[1], LINES[5]))
    assert ' of 8 (no more are left); ' in errors
    assert errors.endswith('left out: 1 known, 1 repeated, 2 near-duplicates among the rest\n')


@pytest.mark.slow
def test_suggest_entropy_of_a_network_beside_all_paths(tmp_path, call):
    """Checks token entropy of a network against the marginals from enumerating all paths.

    This test compiles no graph.
    """
    run, path = make_run(tmp_path / 'run'), tmp_path / 'in.jsonl'
    path.write_text(''.join(json.dumps({'tokens': tokens}) + '\n' for tokens in SENTENCES if tokens))
    status, output, errors = call('--run', run, '--input', path, '--by', 'token-entropy')
    entropies = {}
    for tokens, row in zip(SENTENCES, rows_of(run, 'BIO')):
        if tokens:
            marginals = row.marginals()
            entropy = -(marginals * np.log(np.where(marginals > 0, marginals, 1))).sum() / len(tokens)
            entropies[' '.join(tokens)] = entropy, [TAGS['BIO'][tag] for tag in row.best()]
    order = sorted(entropies, key=entropies.get, reverse=True)
    assert status == 0
    assert [(' '.join(record['tokens']), record['tags']) for record in shown(output)] == [
        (text, entropies[text][1]) for text in order]
    assert f'token-entropy from {entropies[order[0]][0]:.4f} to {entropies[order[-1]][0]:.4f};' in errors


@pytest.mark.slow
def test_suggest_exported_graphs(tmp_path, call):
    run, path = make_run(tmp_path / 'run', char='none'), tmp_path / 'in.jsonl'
    path.write_text('{"tokens": ["to", "Xan"]}\n{"tokens": ["by", "in", "Yel"]}\n')
    for output in ('paths', 'confidences'):
        export(run, tmp_path / f'{output}.mindir', output)
    arguments = '--input', path, '--mindir'
    of_graph, of_run = (call(*arguments, tmp_path / 'confidences.mindir'), call('--input', path, '--run', run))
    for (status, output, _), model in ((of_graph, tmp_path / 'confidences.mindir'), (of_run, run)):
        assert status == 0 and {record['model_version'] for record in shown(output)} == {open_model(model).version}
    graph = open_model(tmp_path / 'confidences.mindir')
    assert of_graph[1].replace(graph.version, open_model(run).version) == of_run[1]
    assert call(*arguments, tmp_path / 'paths.mindir') == (2, '', (
        f'ms-crf suggest: {tmp_path}/paths.mindir: this graph computes no confidences; export it with --confidence, or '
        'use the run itself\n'))
    status, shown_there, errors = call(*arguments, tmp_path / 'confidences.mindir', '--by', 'token-entropy')
    assert (status, shown_there) == (2, '') and '; use the run itself, or --by least-confidence\n' in errors


def test_suggest_tags_are_in_the_scheme_of_the_files(corpora, tmp_path, text, call):
    run = tmp_path / 'run'
    assert train.main([*files(corpora), '--model', 'hmm', '--scheme', 'BIOES', '--save', str(run)]) == 0
    output = call('--run', run, '--input', text)[1]
    assert {tag for record in shown(output) for tag in record['tags']} == {'O', 'B-PER', 'I-PER'}


RAW = 'Xan Yan, of\nXel Yor.\n\nto Xel Yel.'


@pytest.mark.parametrize('kind', ['label-studio', 'prodigy', 'doccano', 'spacy', 'tokens', 'columns'])
def test_suggest_raw_text_in_the_formats_of_tools(run, tmp_path, call, kind):
    """Checks each output format with --raw: spans have offsets into the text of their own sentence."""
    pytest.importorskip('spacy')
    (tmp_path / 'raw.txt').write_text(RAW)
    status, output, _ = call('--run', run, '--input', tmp_path / 'raw.txt', '--raw', '--format', kind)
    assert status == 0
    texts = {'Xan Yan, of\nXel Yor.': {(0, 7), (12, 19)}, 'to Xel Yel.': {(3, 10)}}
    tagged = Tagger.load(run).tag_text(RAW)
    expected = {RAW[one.start:one.end]: {(entity.start - one.start, entity.end - one.start) for entity in one.entities}
                for one in tagged}
    assert expected.keys() == texts.keys()
    found = {}
    if kind == 'label-studio':
        for task in json.loads(output):
            assert 'annotations' not in task and 0 < task['predictions'][0]['score'] <= 1
            found[task['data']['text']] = {(result['value']['start'], result['value']['end'])
                                           for result in task['predictions'][0]['result']}
    elif kind in ('prodigy', 'doccano'):
        for record in shown(output):
            assert 'answer' not in record
            found[record['text']] = {(span['start'], span['end']) if kind == 'prodigy' else tuple(span[:2])
                                     for span in record['spans' if kind == 'prodigy' else 'label']}
    elif kind == 'spacy':
        found = {text: {tuple(span[:2]) for span in notes['entities']} for text, notes in shown(output)}
    else:
        by_tokens = {tuple(one.sentence.tokens): one.sentence.tags for one in tagged}
        rows = ([(record['tokens'], record['tags']) for record in shown(output)] if kind == 'tokens' else
                [list(zip(*(row.split('\t') for row in block.split('\n')))) for block in output.strip().split('\n\n')])
        assert {tuple(tokens): list(tags) for tokens, tags in rows} == by_tokens
        return
    assert found == expected


def test_suggest_files_of_a_folder_and_a_file_to_write(run, tmp_path, call):
    (tmp_path / 'texts').mkdir()
    (tmp_path / 'texts' / 'a.txt').write_text('Xan Yan\nto of\n')
    (tmp_path / 'texts' / 'b.conll').write_text('Xel\nYel\n\n')
    status, output, _ = call('--run', run, '--input', tmp_path / 'texts', '--output', tmp_path / 'out.tsv')
    assert (status, output) == (0, '')
    found = [' '.join(sentence.tokens) for sentence in read_corpus(tmp_path / 'out.tsv')]
    assert sorted(found) == ['Xan Yan', 'Xel Yel', 'to of']


@pytest.mark.slow
def test_suggest_what_comes_through_a_pipe(run):
    result = subprocess.run([sys.executable, '-m', 'ms_crf', 'suggest', '--run', str(run), '-n', '1'], cwd=ROOT,
                            input='Xan Yan\n\nto\n', capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and len(shown(result.stdout)) == 1
    assert result.stderr.startswith('ms-crf suggest: 1 sentence of 2; least-confidence from ')


@pytest.mark.parametrize('arguments,message', [
    ('-n 0', '--count must be at least 1, got 0'), ('--near 1.5', '--near must be at most 1, got 1.5'),
    ('--near nan', '--near must be at least 0, got nan'), ('--ngram 11', '--ngram must be at most 10, got 11'),
    ('--near 1 --ngram 3', '--ngram has no effect with --near 1, which removes only equal sentences; omit it'),
    ('--by doubt', "argument --by: invalid choice: 'doubt' (choose from least-confidence, mnlp, token-entropy)"),
    ('--columns 1', '--columns has no effect without columns; omit it'),
    ('--splitter blanks', '--splitter has no effect without --raw or --known; omit it'),
    ('--raw --chars', '--chars has no effect with --raw; omit it'),
    ('--raw --input-format json', '--raw needs text, got json in {text}; add --input-format text if the file '
                                  'contains text'),
    ('--format brat', '--output must name a folder or a .txt or .ann file for brat'),
    ('--output {folder} --format brat', '{folder}: expected a new or empty folder, got an existing file or a folder '
                                        'with files; choose another name'),
    ('--output {folder}/absent/x', '{folder}/absent/x: cannot be written: there is no folder {folder}/absent'),
    ('--known {folder}/absent.tsv', '{folder}/absent.tsv: no such file'),
    ('--known {text}', "{text}:1: expected columns 0 and -1 to hold token and tag, separated by tabs or spaces, got"),
    ('--known {all}', '{text}: expected sentences that differ from --known, got none'),
    ('--run {folder}', '{folder}/config.json: no such file')])
def test_suggest_what_can_not_be(run, text, tmp_path, call, arguments, message):
    """Checks that invalid arguments give one line on standard error, and that no output is written."""
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'folder' / 'x').write_text('')
    (tmp_path / 'all.tsv').write_text('\n'.join(''.join(f'{token}\tO\n' for token in line.split()) for line in LINES))
    names = {'text': text, 'folder': tmp_path / 'folder', 'all': tmp_path / 'all.tsv'}
    if '{text}' in arguments:
        text.write_text('word\n')
    model = () if '--run' in arguments else ('--run', run)
    status, output, errors = call(*model, '--input', text, *arguments.format(**names).split())
    assert (status, output) == (2, '') and errors.startswith(f'ms-crf suggest: {message.format(**names)}')
    assert len(errors.splitlines()) == 1


def test_suggest_nothing_to_choose_from(run, tmp_path, call):
    (tmp_path / 'empty.txt').write_text('\n \n')
    assert call('--run', run, '--input', tmp_path / 'empty.txt') == (
        2, '', f'ms-crf suggest: {tmp_path}/empty.txt: expected sentences, got none\n')
