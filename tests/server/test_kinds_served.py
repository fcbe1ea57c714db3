"""The server with an exported graph, a custom model type and a pretrained encoder: answers equal `Tagger.tag`."""

import json
import os
import signal
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.cli import train
from ms_crf.models import mindir

import pytest

from support.encoders import arguments
from support.paths import ROOT
from support.runs import make_run
from support.servers import SECONDS, check_answer, said_by, serving, start
from support.trainings import files

pytestmark = pytest.mark.slow

SENTENCES = [['to', 'Xan', 'in', 'Yel'], [], ['unknown'], ['\u200d', 'Xel', 'Yor', '<b>'],
             ['to', 'in', 'at', 'on', 'by', 'of', 'the'] * 3 + ['Xan', 'abracadabra']]
OPTIONS = [{}, {'confidence': False}, {'nbest': 3}]
QUICK = ('--splitter', 'blanks')
PLUGIN = ('--plugin', 'examples/own_model.py')


def requests(*options):
    return [{'sentences': SENTENCES, **one} for one in options]


def check(server, asked, said):
    """The server's answers must equal the tagger's results, and the results must contain more than one tag."""
    assert len({tag for _, tags, *_ in said[0] for tag in tags}) > 1
    for request, expected in zip(asked, said, strict=True):
        status, answer = server.tag(request)
        assert status == 200
        check_answer(answer, expected)


def test_kinds_served_an_exported_graph_is_served_and_swapped_for_another(tmp_path):
    """The first graph has confidences; the second has a fixed shape and no confidences.

    After each load the answers equal `Tagger`; requests that need more than the graph computes are refused.
    """
    run, graph, other = make_run(tmp_path / 'run'), tmp_path / 'a.mindir', tmp_path / 'later' / 'a.mindir'
    other.parent.mkdir()
    mindir.export(run, graph, 'confidences')
    mindir.export(run, other, 'paths', (3, 10))
    asked = requests({}, {'confidence': False})
    tagger = Tagger.load(graph)
    with serving('--mindir', graph, *QUICK) as server:
        check(server, asked, [said_by(tagger, request) for request in asked])
        assert server.tag({'tokens': ['to'], 'nbest': 2}) == (
            422, {'error': 'expected "nbest" to be 0 for a model without n-best decoding, got 2'})
        for ending in ('.mindir', '.json'):
            os.replace(other.with_suffix(ending), graph.with_suffix(ending))
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('the model was reloaded')
        request = {'sentences': SENTENCES[:4]}
        check(server, [request], [said_by(Tagger.load(graph), request)])
        for body, words in (({'tokens': ['to'], 'confidence': True}, 'was exported without confidences, got true'),
                            ({'sentences': SENTENCES}, 'takes sentences of up to 10 tokens, got 23')):
            status, answer = server.tag(body)
            assert status == 422 and words in answer['error']


def test_kinds_served_a_kind_of_ones_own_is_served_with_its_plugin(corpora, tmp_path):
    """The expected answers come from a separate process, so the custom model type is not registered in this one."""
    run = tmp_path / 'run'
    subprocess.run([sys.executable, 'train.py', *PLUGIN, '--model', 'mine', *files(corpora), '--word-dim', '6',
                    '--hidden', '8', '--batch-size', '4', '--epochs', '2', '--learning-rate', '0.05', '--device', 'CPU',
                    '--save', run], cwd=ROOT, check=True, capture_output=True, timeout=200)
    asked = requests(*OPTIONS)
    program = ('import json, sys; sys.path[:0] = ["examples", "tests"]; import own_model; '
               'from support.servers import said_by; from ms_crf import Tagger; tagger = Tagger.load(sys.argv[1]); '
               'print(json.dumps([said_by(tagger, request) for request in json.load(sys.stdin)]))')
    result = subprocess.run([sys.executable, '-c', program, run], cwd=ROOT, input=json.dumps(asked), check=True,
                            capture_output=True, text=True, timeout=200)
    with serving('--run', run, *PLUGIN, *QUICK) as server:
        check(server, asked, json.loads(result.stdout))
    process = start('--run', run, '--port', '0', *QUICK)
    output, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, output) == (2, '') and len(errors.splitlines()) == 1
    assert errors.startswith(f'ms-crf serve: {run}/config.json: ') and 'name the program that registers it' in errors


def test_kinds_served_a_run_over_a_pretrained_encoder_is_served(corpora, encoder, tmp_path):
    """The sentences include a word without subwords and a sentence that needs several encoder windows."""
    pytest.importorskip('tokenizers')
    run = tmp_path / 'run'
    assert train.main(arguments(corpora, encoder, run)) == 0
    tagger, asked = Tagger.load(run), requests(*OPTIONS)
    with serving('--run', run, *QUICK) as server:
        check(server, asked, [said_by(tagger, request) for request in asked])
