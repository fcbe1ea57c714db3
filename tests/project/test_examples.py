"""The programs in examples/ run as separate processes and give the documented results."""

import json
import os
import random
import re
import shutil
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.models import mindir
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun

import pytest

from support.paths import ROOT
from support.runs import WORDS, make_run

pytestmark = pytest.mark.slow


def run(name, *arguments):
    """The output of an example, which must print nothing to standard error."""
    result = subprocess.run([sys.executable, f'examples/{name}.py', *arguments], cwd=ROOT, capture_output=True,
                            text=True, timeout=200, env={**os.environ, 'PYTHONPATH': str(ROOT)})
    assert (result.returncode, result.stderr) == (0, '')
    return result.stdout


def test_examples_the_layer_under_a_network_of_ones_own():
    lines = run('own_network').splitlines()
    losses = [float(re.fullmatch(r'step \d+: loss ([0-9.]+)', line).group(1)) for line in lines[:-1]]
    assert len(losses) == 3 and losses == sorted(losses, reverse=True)
    assert float(re.fullmatch(r'right tags: ([0-9.]+)%', lines[-1]).group(1)) > 98


def test_examples_the_layer_under_mindspores_own_model():
    lines = run('with_model').splitlines()
    losses = [float(line.rpartition(' ')[2]) for line in lines[:-2]]
    assert len(losses) == 10 and losses[-1] < 0.1 * losses[0]
    assert lines[-2:] == ['EU/B rejects/O German/B call/O', 'Peter/B Blackburn/I visits/O Brussels/B']


RUN_ALONE = """
import importlib.util, runpy, sys
assert importlib.util.find_spec('ms_crf') is None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
assert not any(name.split('.')[0] == 'ms_crf' for name in sys.modules)
"""


@pytest.mark.parametrize('options', [{'char': 'cnn', 'ngrams': True},
                                     {'char': 'none', 'bigrams': True, 'ngrams': True}])
def test_examples_a_graph_without_the_package(options, tmp_path):
    """A copy of the example in another folder, without ms_crf, gives the same tags as `Tagger` for the same graph."""
    run = make_run(tmp_path / 'run', **options)
    mindir.export(run, tmp_path / 'a.mindir')
    record = json.loads((tmp_path / 'a.json').read_text())
    assert record['set_inputs'] is True and None in record['inputs'][0]['shape']
    rng = random.Random(0)
    words = [*WORDS, 'XAN', 'a' * 40, '1990', 'new', 'Zoë', 'Xanadu', 'unknown']
    sentences = [rng.choices(words, k=rng.randint(0, 9)) for _ in range(40)]
    found = [[tag for _, tag in line] for line in run_alone(tmp_path, sentences)]
    assert found == [tagged.tags for tagged in Tagger.load(tmp_path / 'a.mindir').tag(sentences)]
    assert len({tag for tags in found for tag in tags}) > 1


def run_alone(folder, sentences):
    """The output lines of the copied program for a.mindir, as lists of (word, tag) or (word, tag, confidence)."""
    away = folder / 'away'
    away.mkdir()
    shutil.copy(ROOT / 'examples' / 'plain_mindir.py', away)
    clean = {name: value for name, value in os.environ.items() if name not in ('PYTHONPATH', 'GLOG_v')}
    result = subprocess.run([sys.executable, '-c', RUN_ALONE, 'plain_mindir.py', str(folder / 'a.mindir')], cwd=away,
                            input=''.join(' '.join(tokens) + '\n' for tokens in sentences),
                            env={**clean, 'PYTHONIOENCODING': 'utf-8'}, capture_output=True, text=True,
                            encoding='utf-8', timeout=120)
    assert (result.returncode, result.stderr) == (0, '')
    return [[tuple(part.split('/')) for part in line.split()]
            for line in result.stdout.split('\n')[:-1]]


@pytest.mark.parametrize('head', ['crf', 'softmax'])
def test_examples_a_graph_that_was_trained_in_another_scheme_than_that_of_its_output(head, tmp_path):
    """The program converts BIOES tags to BIO as `Tagger` does, also for invalid sequences of a softmax head.

    Models learn BIO files as BIOES, and `infer` writes BIO. Confidences must equal the confidences of `Tagger`, too.
    """
    run = make_run(tmp_path / 'run', 'BIOES', char='none', head=head)
    records.write_json(run / 'config.json', {**SavedRun.open(run).config, 'written_scheme': 'BIO'})
    mindir.export(run, tmp_path / 'a.mindir', 'confidences')
    record = json.loads((tmp_path / 'a.json').read_text())
    assert (record['scheme'], record['written_scheme']) == ('BIOES', 'BIO')
    rng = random.Random(1)
    sentences = [rng.choices(WORDS, k=rng.randint(0, 9)) for _ in range(60)]
    expected = Tagger.load(run).tag(sentences)
    found = run_alone(tmp_path, sentences)
    assert [[tag for _, tag, _ in line] for line in found] == [tagged.tags for tagged in expected]
    assert {'B', 'I'} <= {tag[0] for line in found for _, tag, _ in line} <= set('BIO')
    for line, tagged in zip(found, expected):
        assert [float(confidence) for *_, confidence in line] == pytest.approx(tagged.confidences, abs=2e-4)


def test_examples_a_record_of_an_earlier_version_does_not_name_the_scheme_of_the_output(tmp_path):
    """For such a record the program prints the tags of the graph without conversion, like `Tagger`."""
    run = make_run(tmp_path / 'run', 'BIOES', char='none')
    mindir.export(run, tmp_path / 'a.mindir')
    record = json.loads((tmp_path / 'a.json').read_text())
    del record['written_scheme'], record['record_sha256']
    (tmp_path / 'a.json').write_text(json.dumps(record))
    sentences = [random.Random(2).choices(WORDS, k=9) for _ in range(5)]
    expected = [tagged.tags for tagged in Tagger.load(tmp_path / 'a.mindir').tag(sentences)]
    assert [[tag for _, tag in line] for line in run_alone(tmp_path, sentences)] == expected


def test_examples_a_graph_that_the_program_does_not_take(tmp_path):
    run = make_run(tmp_path / 'run', char='none')
    mindir.export(run, tmp_path / 'a.mindir', static=[2, 4])
    assert json.loads((tmp_path / 'a.json').read_text())['set_inputs'] is False
    result = subprocess.run([sys.executable, str(ROOT / 'examples' / 'plain_mindir.py'), str(tmp_path / 'a.mindir')],
                            input='to Xan\n', capture_output=True, text=True, timeout=120)
    assert result.returncode == 1 and len(result.stderr.splitlines()) == 1 and 'without --encoder' in result.stderr
