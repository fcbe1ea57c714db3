"""Runs on partly annotated text: training, resuming, scores and reports."""

import json

from ms_crf import Tagger
from ms_crf.cli import evaluate, infer, report, train
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.training import course
from ms_crf.training.watchers import Stopped

import numpy as np
import pytest

from support.trainings import SMALL, StopAt, assert_same_bits, files, options_of

pytestmark = pytest.mark.usefixtures('steps_compiled_once')

def in_part(path, target):
    """Writes a partly annotated copy of a corpus.

    In every second sentence the tags of 'of' and of first names are unknown. In all other sentences the prefixes of
    last names are unknown. An additional last sentence has no known tags.
    """
    sentences = path.read_text().rstrip('\n').split('\n\n')
    partly = [text.replace('B-PER', '?').replace('of\tO', 'of\t?') if index % 2 else text.replace('I-PER', '?-PER')
              for index, text in enumerate(sentences)]
    target.write_text('\n\n'.join([*partly, 'Zan\t?\nZel\t?']) + '\n', encoding='utf-8')
    return target


@pytest.fixture(scope='module')
def partly(corpora, tmp_path_factory):
    """(arguments, folder, run) of a training on partly annotated text."""
    folder = tmp_path_factory.mktemp('partly')
    arguments = [*files(corpora, train=in_part(corpora / 'train.tsv', folder / 'train.tsv'),
                        dev=in_part(corpora / 'dev.tsv', folder / 'dev.tsv')), *SMALL, '--scheme', 'BIOES']
    run = course.start(options_of([*arguments, '--save', str(folder / 'run')]), StopAt(-1))
    run.run()
    return arguments, folder / 'run', run


@pytest.mark.slow
def test_partly_tagged_runs_what_is_not_known_is_learned_from_the_rest(partly):
    _, folder, run = partly
    scores = json.loads((folder / records.SCORES).read_text())
    assert scores['test']['f1'] > 0.9            # test is completely annotated
    vocabulary = json.loads((folder / records.VOCABULARY).read_text())
    assert vocabulary['tags'] == ['O', 'B-PER', 'I-PER', 'E-PER', 'S-PER']
    assert {'Zan', 'Zel'} <= set(vocabulary['words'])
    # The sentence 'Zan Zel' has no known tags and is not trained: an epoch has 21 sentences in batches of 4.
    assert sum(len(indices) for _, indices, *_ in run.learner.plan(np.random.default_rng(1))) == 21
    assert run.steps_an_epoch == 6
    judged = sum(line.split('\t')[1] in ('O', 'B-PER', 'I-PER') for line in
                 (folder.parent / 'dev.tsv').read_text().splitlines() if line)
    assert f'processed {judged} tokens with 0 phrases; ' in scores['dev']['table'][0]


@pytest.mark.slow
def test_partly_tagged_runs_stopped_and_resumed_it_is_the_same_to_the_bit(partly, tmp_path):
    arguments, folder, _ = partly
    options = options_of([*arguments, '--save', str(tmp_path / 'run')])
    run = course.start(options, StopAt(4))
    with pytest.raises(Stopped):
        run.run()
    course.resume(tmp_path / 'run', options, StopAt(-1)).run()
    assert_same_bits(tmp_path / 'run', folder)


@pytest.mark.slow
def test_partly_tagged_runs_every_command_scores_what_is_judged(partly, tmp_path, capsys):
    _, folder, _ = partly
    [tags] = [sentence.tags for sentence in Tagger.load(folder).tag([['to', 'of', 'Xan', 'Yan']])]
    assert tags == ['O', 'O', 'B-PER', 'E-PER']
    path, lines = tmp_path / 'x.tsv', tmp_path / 'x.jsonl'
    path.write_text('to\tO\nof\t?\nXan\tB-PER\nYan\tI-PER\n\nto\t?\nof\tO\nXan\tB-PER\nYan\t?\n')
    lines.write_text('{"tokens": ["to", "of", "Xan", "Yan"], "tags": ["O", null, "B-PER", "I-PER"]}\n'
                     '{"tokens": ["to", "of", "Xan", "Yan"], "tags": [null, "O", "B-PER", null]}\n')
    for name in map(str, (path, lines)):
        assert infer.main(['--run', str(folder), '--input', name, '--score']) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown[0] == 'processed 5 tokens with 1 phrases; found: 1 phrases; correct: 1.'
        assert shown[-1] == '3 more tokens are not annotated and not scored, nor are spans with such tokens'
    assert evaluate.main(['--run', str(folder), '--input', str(path), '--json', str(tmp_path / 'x.json')]) == 0
    assert '3 more tokens are not annotated and do not count; entities that' in capsys.readouterr().out
    record = json.loads((tmp_path / 'x.json').read_text())
    assert (record['tokens'], record['unjudged']) == (5, 3)
    assert (record['exact']['support'], record['exact']['f1']) == (1, 1.0)
    assert report.main([str(folder), '--input', str(lines), '--output', str(tmp_path / 'x.html')]) == 0
    assert '3 more tokens are not annotated' in (tmp_path / 'x.html').read_text()


@pytest.mark.slow
def test_partly_tagged_runs_a_mark_is_what_the_run_says_or_the_command(partly, tmp_path, capsys):
    _, folder, _ = partly
    path = tmp_path / 'x.tsv'
    path.write_text('to\tXX\nXan\tB-PER\nYan\tI-PER\n')
    assert infer.main(['--run', str(folder), '--input', str(path), '--score']) == 2
    assert "x.tsv:1: expected 'O' or tags of spans in the scheme BIO, got 'XX'" in capsys.readouterr().err
    assert infer.main(['--run', str(folder), '--input', str(path), '--score', '--unknown-tag', 'XX']) == 0
    assert capsys.readouterr().out.startswith('processed 2 tokens with 1 phrases')
    path.write_text('# XX\nXan B-PER\nYan I-PER\n')                    # space-separated; `# XX` is not a comment
    for command, named in ((infer, ['--score']), (evaluate, [])):
        assert command.main(['--run', str(folder), '--input', str(path), *named, '--unknown-tag', 'XX']) == 0
        assert '1 more tokens are not annotated' in capsys.readouterr().out
    assert infer.main(['--run', str(folder), '--text', 'a', '--unknown-tag', 'XX']) == 2
    assert 'infer.py: --unknown-tag has no effect without --score; omit it' in capsys.readouterr().err
    path.write_text('to\t?\nXan\t?\n')
    assert evaluate.main(['--run', str(folder), '--input', str(path)]) == 2
    assert 'x.tsv: expected tags, but none of 2 tokens is completely annotated' in capsys.readouterr().err


@pytest.mark.slow
def test_partly_tagged_runs_a_head_without_transitions_learns_from_sets_too(partly, tmp_path):
    arguments, _, _ = partly
    assert train.main([*arguments, '--head', 'softmax', '--save', str(tmp_path / 'run')]) == 0
    losses = [record['loss'] for record in SavedRun.open(tmp_path / 'run').metrics]
    assert losses[0] > losses[1] > losses[2] > 0
