"""Compares the functions of `ms_crf.api` with their commands.

A function takes the same arguments as its command, writes the same files, and prints nothing.
"""

import importlib
import inspect
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import NamedTuple

from ms_crf import api
from ms_crf.runs.options import Options

import pytest

from support.paths import ROOT
from support.runs import make_run

VERBS = {'tag': 'infer', 'tag_many': 'tag-many'}      # commands whose names differ from their functions
DIGESTS = {'sha256', 'record_sha256'}


class Case(NamedTuple):
    """One task, as a function call and as a command line; {run}, {network} and {test} stand for paths."""

    call: str
    arguments: str
    library: str = 'numpy'                            # the library that the task needs


#: functions that other files test: a server that runs until it is interrupted, and tagging with Ray
ELSEWHERE = {'serve': 'server/test_serve_function.py', 'tag_many': 'bulk/test_tag_many_function.py'}
CASES = {
    'compare': Case('compare(train={train!r}, dev={dev!r}, test={test!r}, models="hmm", json="figures.json")',
                    '--train {train} --dev {dev} --test {test} --models hmm --json figures.json'),
    'convert': Case('convert({test!r}, "converted.jsonl", to="tokens")', '{test} converted.jsonl --to tokens'),
    'evaluate': Case('evaluate({test!r}, run={run!r}, resamples=100, json="figures.json")',
                     '--input {test} --run {run} --resamples 100 --json figures.json'),
    'export': Case('export("graph.mindir", run={network!r}, static=(2, 4))',
                   '--output graph.mindir --run {network} --static 2 4'),
    'report': Case('report([{run!r}], input={test!r}, resamples=100)', '{run} --input {test} --resamples 100',
                   'matplotlib'),
    'suggest': Case('suggest({test!r}, run={run!r}, count=3, by="mnlp", output="next.jsonl")',
                    '--input {test} --run {run} -n 3 --by mnlp --output next.jsonl'),
    'tag': Case('tag(input={test!r}, run={run!r}, format="json", score=True, output="tagged.jsonl")',
                '--input {test} --run {run} --format json --score --output tagged.jsonl'),
    'train': Case('train(train={train!r}, dev={dev!r}, model="hmm", save="trained")',
                  '--train {train} --dev {dev} --model hmm --save trained'),
}


@pytest.fixture(scope='module')
def paths(run, corpora, tmp_path_factory):
    network = make_run(tmp_path_factory.mktemp('network') / 'run', char='none')
    return {'run': str(run), 'network': str(network),
            **{part: str(corpora / f'{part}.tsv') for part in ('train', 'dev', 'test')}}


def command_of(name):
    return importlib.import_module(f'ms_crf.cli.{VERBS.get(name, name).replace("-", "_")}')


def written(folder):
    """Returns the contents of the files in a folder, without measured times and rates.

    Two exports of a graph differ in their bytes. So for a graph only its record is compared, without digests.
    """
    files = {path.name: re.sub(rb'[\d,]+ (sentences|tokens)\b|"\w*seconds?": [\d.]+', b'', path.read_bytes())
             for path in folder.rglob('*') if path.is_file() and path.name not in ('lock', 'checksums.json')}
    for name in [name for name in files if name.endswith('.mindir')]:
        del files[name]
        record = json.loads(files[name.replace('.mindir', '.json')])
        files[name.replace('.mindir', '.json')] = {key: value for key, value in record.items() if key not in DIGESTS}
    return files


def test_functions_every_function_has_a_case():
    assert sorted([*CASES, *ELSEWHERE]) == sorted(api.__all__)
    assert all((ROOT / 'tests' / file).exists() for file in ELSEWHERE.values())


@pytest.mark.slow
@pytest.mark.parametrize('name', CASES)
def test_functions_a_function_gives_what_its_command_gives(name, paths, tmp_path, capfd, monkeypatch):
    """Checks that a function writes the same files as its command, and prints nothing.

    The function runs in a thread that is not the main thread.
    """
    pytest.importorskip(CASES[name].library)
    for folder in ('command', 'function'):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / 'command')
    assert command_of(name).main(CASES[name].arguments.format(**paths).split()) == 0
    capfd.readouterr()
    monkeypatch.chdir(tmp_path / 'function')
    with ThreadPoolExecutor(1) as threads:
        result = threads.submit(eval, CASES[name].call.format(**paths), {name: getattr(api, name)}).result()
    assert result is not None and capfd.readouterr() == ('', '')
    assert written(tmp_path / 'function') == written(tmp_path / 'command') != {}


@pytest.mark.slow
def test_functions_a_script_calls_all_functions_and_prints_nothing(paths, tmp_path):
    calls = [f'from ms_crf.api import {name}\n{case.call.format(**paths)}' for name, case in CASES.items()
             if importlib.util.find_spec(case.library) is not None]
    (tmp_path / 'script.py').write_text('\n'.join(calls))
    process = subprocess.run([sys.executable, 'script.py'], cwd=tmp_path, env={'PYTHONPATH': str(ROOT)},
                             capture_output=True, text=True, timeout=120)
    assert (process.returncode, process.stdout, process.stderr) == (0, '', '')


@pytest.mark.parametrize('name', [name for name in api.__all__ if name != 'compare'])
def test_functions_each_option_is_an_argument_with_the_same_default(name):
    """Checks that each option of a command is an argument of its function, with the same default.

    A required argument has no default in the function; its command may have another source for the value. `compare`
    rejects some training options, so the tests of experiments check `compare`.
    """
    options = {action.dest: action.default for action in command_of(name).parser()._actions if action.dest != 'help'}
    parameters = dict(inspect.signature(getattr(api, name)).parameters)
    assert parameters.pop('watcher').default is importlib.import_module('ms_crf.base.watchers').SILENT
    for name in ('children', 'stop'):  # have no option: how to start trainings, and how to stop a server
        parameters.pop(name, None)
    assert set(parameters) == set(options)
    for argument, parameter in parameters.items():
        assert parameter.default == options[argument] or not (parameter.default or options[argument]) or (
            parameter.default is parameter.empty and options[argument] is None), argument
        assert parameter.annotation is not parameter.empty, argument


@pytest.mark.parametrize('name', api.__all__)
def test_functions_a_docstring_names_all_arguments_and_has_an_example(name):
    function = getattr(api, name)
    text = inspect.getdoc(function)
    described, parts = text.partition('\nArgs:\n')[2].split('\n\n'), text.split('\n')
    for argument in set(inspect.signature(function).parameters) - {entry.name for entry in fields(Options)}:
        assert f' {argument}' in described[0].replace('`', ' '), argument
    returns = {'Returns:'} - {'Returns:' * (inspect.signature(function).return_annotation is None)}
    assert {'Args:', 'Raises:', 'Example:'} | returns <= set(parts) and f'>>> from ms_crf.api import {name}' in text
