"""Tests arguments that would overwrite a file, or that a library cannot handle.

Each is rejected with one line and status 2, and no file changes.
"""

import importlib.util
from pathlib import Path

from ms_crf.cli import compare, evaluate, infer, report, serve, tag_many
from ms_crf.runs import records

import pytest

needs_report = pytest.mark.skipif(importlib.util.find_spec('matplotlib') is None, reason='needs the extra report')
needs_ray = pytest.mark.skipif(importlib.util.find_spec('ray') is None, reason='needs the extra bulk')
LOST = 'cannot be written: it is also the input, which would be lost; choose another name'
OF_RUN = 'cannot be written: it is a file of the run in {run}; choose another name'
PLUGIN = 'raise SystemExit(3)\n'


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in Path(folder).rglob('*')
            if '__pycache__' not in path.parts}                  # Python caches the bytecode of a plugin there


@pytest.fixture
def refused(hmm, corpora, tmp_path, capsys):
    """Returns a function that checks that a command rejects its arguments with one line, and changes no file.

    In the arguments, {run}, {test}, {lines} and {folder} stand for paths.
    """
    for name, text in (('lines.txt', 'to Xan\n'), ('leaves.py', PLUGIN),
                       ('test.tsv', (corpora / 'test.tsv').read_text())):
        (tmp_path / name).write_text(text)
    (tmp_path / 'linked.tsv').symlink_to('test.tsv')
    names = {'run': hmm, 'lines': tmp_path / 'lines.txt', 'folder': tmp_path, 'test': tmp_path / 'test.tsv'}
    before = contents(tmp_path)

    def call(command, arguments, message):
        capsys.readouterr()
        assert command.main([argument.format(**names) for argument in arguments]) == 2
        out, err = capsys.readouterr()
        assert out == '' and len(err.splitlines()) == 1 and message.format(**names) in err, err
        assert contents(tmp_path) == before
    return call


@pytest.mark.parametrize('command,arguments', [
    (evaluate, ['--run', '{run}', '--input', '{test}', '--json', '{test}']),
    (evaluate, ['--run', '{run}', '--input', '{folder}/linked.tsv', '--json', '{test}']),
    (compare, ['--models', 'hmm', '--train', '{test}', '--dev', '{test}', '--test', '{test}', '--json', '{test}']),
    pytest.param(report, ['{run}', '--input', '{test}', '--output', '{test}'], marks=needs_report),
    pytest.param(tag_many, ['--run', '{run}', '--input', '{folder}/lines.txt', '--output', '{folder}/o', '--json',
                            '{folder}/lines.txt'], marks=needs_ray)])
def test_hostile_arguments_what_is_read_is_not_overwritten(refused, command, arguments):
    refused(command, arguments, LOST)


@pytest.mark.parametrize('name', [records.CONFIG, records.VOCABULARY, records.SCORES, records.CHECKSUMS])
@pytest.mark.parametrize('command,arguments', [
    (evaluate, ['--run', '{run}', '--input', '{test}', '--json']),
    (infer, ['--run', '{run}', '--input', '{test}', '--output']),
    (report, ['{run}', '--input', '{test}', '--output']),
    (tag_many, ['--run', '{run}', '--input', '{folder}/lines.txt', '--output', '{folder}/o', '--json'])])
def test_hostile_arguments_files_of_a_run_are_not_overwritten(refused, command, arguments, name):
    refused(command, [*arguments, f'{{run}}/{name}'], OF_RUN)


@pytest.mark.parametrize('arguments,message', [
    (['--input', '\ud800.txt'], "--input must be a path in UTF-8, got '\\ud800.txt'"),
    (['--input', 'a\0.txt'], "--input must be a path without NUL characters, got 'a\\x00.txt'"),
    (['--input', '{lines}', '--address', ''], "--address must be HOST:PORT or auto, got ''"),
    (['--input', '{lines}', '--address', 'host'], "--address must be HOST:PORT or auto, got 'host'"),
    (['--input', '{lines}', '--address', 'host:' + '9' * 5000], "--address must be HOST:PORT or auto, got 'ho"),
    (['--input', '{lines}', '--address', 'x' * 80 + ':80'], ':80 does not answer: unknown host;')])
def test_hostile_arguments_names_and_addresses_that_can_not_be_leave_no_folder(refused, arguments, message):
    refused(tag_many, ['--run', '{run}', '--output', '{folder}/o', *arguments], message)


@pytest.mark.parametrize('origin', ['http://[::1', 'http://a:99999999', 'http://a:b', 'http://a/', 'a', ''])
def test_hostile_arguments_origins_that_are_none(refused, origin):
    refused(serve, ['--run', '{run}', '--port', '0', '--allow-origin', origin],
            f'--allow-origin must be * or an origin such as https://example.org, without a path, got {origin!r}')


def test_hostile_arguments_a_splitter_that_is_named_and_can_not_be_had(refused):
    pytest.importorskip('spacy')
    refused(serve, ['--run', '{run}', '--port', '0', '--splitter', 'spacy-zz'], 'a language that spaCy has rules for')


@pytest.mark.parametrize('command', [evaluate, infer])
def test_hostile_arguments_a_plugin_that_ends_the_program_is_at_fault(refused, command):
    refused(command, ['--run', '{run}', '--input', '{test}', '--plugin', '{folder}/leaves.py'],
            '--plugin: {folder}/leaves.py:1: SystemExit: 3')
