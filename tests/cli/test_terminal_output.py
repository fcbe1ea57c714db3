"""Checks that commands print only text.

A tag, a token or a file name must not send control sequences to the terminal.
"""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

from ms_crf.cli import compare, console, convert, evaluate, export, infer, report, suggest, tag_many, train

import pytest

from support.paths import ROOT
from support.trainings import files

# C0, DEL, C1, bidirectional controls and a line separator. In a file name, Python decodes a byte that is not UTF-8 as
# an unpaired surrogate (BYTE).
HOSTILE = '\x1b[31m\x07\x7f\x9b2J\u202e\u2066\u2028'
BYTE = '\udcff'
needs_report = pytest.mark.skipif(importlib.util.find_spec('matplotlib') is None, reason='needs the extra report')
needs_ray = pytest.mark.skipif(importlib.util.find_spec('ray') is None, reason='needs the extra bulk')


def assert_is_text(text):
    """Asserts that a text has only printable characters and line ends.

    The oracle is the Unicode category of each character, not the code under test.
    """
    odd = {character for character in text if character not in '\n\t'
           and unicodedata.category(character) in ('Cc', 'Cf', 'Cs', 'Zl', 'Zp')}
    assert not odd, (odd, text)


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """Returns a folder with a hostile name that holds corpora with hostile tags and files with hostile names."""
    folder = tmp_path_factory.mktemp('world') / f'a\n{HOSTILE}'
    folder.mkdir()
    for part, kind in (('train', f'P{HOSTILE}'), ('dev', f'Q{HOSTILE}'), ('test', f'R{HOSTILE}')):
        rows = [f'to\tO\nXan\tB-{kind}\nYan\tI-{kind}\nof\tI-P{HOSTILE}\n'] * 4
        (folder / f'{part}.tsv').write_text('\n'.join(rows) + '\n', encoding='utf-8')
    (folder / 'bad.tsv').write_text(f'to\tO\nXan{HOSTILE}\n', encoding='utf-8')
    record = {'text': f'to Xan {HOSTILE} x', 'entities': [[1, 5, f'P{HOSTILE}'], [0, 3, 'Q']]}
    (folder / 'spans.jsonl').write_text(json.dumps(record) + '\n')
    (folder / f'text{HOSTILE}.txt').write_text('to Xan Yan\n')
    (folder / 'bytes.txt').write_bytes(b'to \xff\n')
    return folder


@pytest.fixture(scope='module')
def training(world):
    names = [text for part in ('train', 'dev', 'test') for text in (f'--{part}', str(world / f'{part}.tsv'))]
    return [*names, '--model', 'hmm', '--device', 'CPU']


@pytest.fixture(scope='module')
def run(world, training):
    folder = world / f'run{HOSTILE}'
    assert train.main([*training, '--save', str(folder)]) == 0
    return folder


@pytest.fixture
def called(world, run, capfd):
    """Returns a function that runs a command and asserts its exit status, and that it prints only text.

    In the arguments, {w} stands for the folder and {r} for the run.
    """
    def call(command, status, *arguments):
        capfd.readouterr()
        got = command.main([str(argument).replace('{w}', str(world)).replace('{r}', str(run))
                            for argument in arguments])
        out, err = capfd.readouterr()
        assert got == status, err
        assert_is_text(out)
        assert_is_text(err)
        return out, err
    return call


def test_terminal_output_training(called, training, tmp_path):
    out, _ = called(train, 0, *training, '--save', '{w}/other')
    assert r'R\x1b[31m\x07\x7f\x9b2J\u202e\u2066\u2028' in out and '\\x1b[31m' in out.splitlines()[-1]
    called(train, 2, *training, '--save', '{w}/other')
    called(train, 2, *training, '--save', f'{{w}}/{BYTE}')
    called(train, 2, *training, '--save', '{w}/n', '--train', '{w}/bad.tsv')
    called(train, 2, '--resume', '{r}')
    called(train, 2, f'--{HOSTILE}')
    called(train, 2, '--config', '{w}/no' + HOSTILE)
    called(train, 2, '--plugin', '{w}/no' + HOSTILE)


def test_terminal_output_tagging(called, world):
    text = f'{{w}}/text{HOSTILE}.txt'
    called(infer, 0, '--run', '{r}', '--input', '{w}/test.tsv', '--score')
    called(infer, 0, '--run', '{r}', '--input', text, '--output', '{w}/o.txt')
    called(infer, 0, '--run', '{r}', '--input', '{w}/bytes.txt', '--output', '{w}/o.txt')
    called(infer, 0, '--run', '{r}', '--input', '{w}/*.txt', '--output', '{w}/many')
    called(infer, 0, '--run', '{r}', '--input', '{w}/*.txt', '--output', '{w}/many')
    called(infer, 2, '--run', '{r}', '--input', '{w}/bad.tsv', '--score')
    called(infer, 2, '--run', '{r}', '--input', f'{{w}}/no{BYTE}')
    called(infer, 2, '--run', '{w}')
    called(infer, 2, '--run', '{r}', '--input', text, '--output', f'{{w}}/no{BYTE}/o')


@pytest.mark.slow
def test_terminal_output_scores(called):
    out, _ = called(evaluate, 0, '--run', '{r}', '--input', '{w}/test.tsv', '--json', '{w}/j.json')
    assert r'P\x1b[31m' in out
    called(evaluate, 2, '--run', '{r}', '--input', '{w}/bad.tsv')
    called(compare, 0, '--models', 'hmm', *[text for part in ('train', 'dev', 'test') for text in (
        f'--{part}', f'{{w}}/{part}.tsv')], '--keep', '{w}/kept')
    called(compare, 0, '--models', 'hmm', '--train', '{w}/train.tsv', '--folds', '3')


@pytest.mark.slow
@needs_report
def test_terminal_output_a_report(called):
    called(report, 0, '{r}', '--output', '{w}/report.html')
    called(report, 2, '{r}', '--input', '{w}/bad.tsv', '--output', '{w}/report.html')
    called(report, 2, '{w}')


@pytest.mark.slow
def test_terminal_output_formats_and_suggestions(called):
    called(convert, 0, '{w}/train.tsv', '{w}/t.jsonl', '--to', 'doccano')
    called(convert, 0, '{w}/spans.jsonl', '{w}/s.tsv', '--each')
    called(convert, 2, '{w}/bad.tsv', '{w}/t.jsonl', '--to', 'doccano')
    called(suggest, 0, '--run', '{r}', '--input', f'{{w}}/text{HOSTILE}.txt', '--output', '{w}/s.jsonl')
    called(suggest, 2, '--run', '{r}', '--input', f'{{w}}/no{HOSTILE}.txt')
    called(export, 2, '--run', '{r}', '--output', '{w}/g.mindir')


@pytest.mark.slow
@needs_ray
def test_terminal_output_many_files(called):
    called(tag_many, 2, '--run', '{r}', '--input', f'{{w}}/no{HOSTILE}.txt', '--output', '{w}/tagged')
    called(tag_many, 0, '--run', '{r}', '--input', f'{{w}}/text{HOSTILE}.txt', '--output', '{w}/tagged', '--workers', 1)


@pytest.mark.slow
def test_terminal_output_a_server_that_finds_no_model(world):
    process = subprocess.run([sys.executable, '-m', 'ms_crf', 'serve', '--run', str(world), '--port', '0'], cwd=ROOT,
                             capture_output=True, text=True, timeout=60)
    assert process.returncode == 2 and process.stderr.startswith('ms-crf serve: ')
    assert_is_text(process.stdout + process.stderr)


def test_terminal_output_lines_of_other_processes(capsys):
    """Checks the functions that `train --workers` and `--jobs` use to print lines of their child processes."""
    console.show(f'seed 1: {HOSTILE}{BYTE}')
    console.say(f'seed 1: {HOSTILE}{BYTE}')
    for text in capsys.readouterr():
        assert_is_text(text)
        assert r'\x1b' in text and r'\udcff' in text


@pytest.mark.slow
def test_terminal_output_all_lines_are_printed_in_one_place():
    """Checks by the syntax tree that only `console` writes to the standard streams, except for tagged text."""
    allowed = {('infer.py', '_print')}
    for path in sorted((Path(ROOT) / 'ms_crf').rglob('*.py')):
        if path.name == 'console.py':
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                if isinstance(node, ast.Call):
                    called = ast.unparse(node.func)
                    prints = called == 'print' or called.startswith(('sys.stdout.write', 'sys.stderr.write'))
                    known = {(path.name, function.name), (path.name, called.rpartition('.')[2])} & allowed
                    assert not prints or known, f'{path}:{node.lineno}: {called}'


@pytest.mark.slow
@pytest.mark.parametrize('locale', ['C.UTF-8', 'C'])
def test_terminal_output_a_terminal_without_unicode(tmp_path, corpora, locale):
    """Checks commands on a terminal without Unicode.

    Characters that the encoding of standard output lacks are escaped. File names that the locale lacks give one line.
    """
    for part in ('train', 'dev', 'test'):
        (tmp_path / f'{part}.tsv').write_text((corpora / f'{part}.tsv').read_text().replace('PER', '人'))
    shutil.copy(tmp_path / 'dev.tsv', tmp_path / 'dév.tsv')
    assert train.main(['--model', 'hmm', *files(tmp_path, dev=tmp_path / 'dév.tsv'), '--save',
                       str(tmp_path / 'läuf')]) == 0
    (tmp_path / 'c.json').write_text('{"save": "öö", "train": "train.tsv", "dev": "dev.tsv"}')
    environment = {**os.environ, 'LC_ALL': locale, 'PYTHONUTF8': '0', 'PYTHONIOENCODING': 'ascii',
                   'PYTHONPATH': str(ROOT)}
    new = ['train', '--model', 'hmm', '--train', 'train.tsv', '--dev', 'dev.tsv', '--test', 'test.tsv']
    narrow = 2 if locale == 'C' else 0           # file names are ASCII in this locale
    for status, arguments in ((0, [*new, '--save', 'plain']), (narrow, [*new, '--save', 'ö']),
                              (0, ['infer', '--run', 'läuf', '--input', 'dév.tsv', '--score']),
                              (0, ['evaluate', '--run', 'läuf', '--input', 'dév.tsv', '--json', 'ß.json']),
                              (narrow, ['train', '--model', 'hmm', '--config', 'c.json']),
                              (2, ['train', '--resume', 'läuf']), (2, ['train', '--config', 'ß/c.json']),
                              (2, ['infer', '--run', 'ß', '--text', 'a']), (2, [*new, '--save', '/']),
                              (0, ['convert', 'dév.tsv', 'ö.tsv'])):
        process = subprocess.run([sys.executable, '-m', 'ms_crf', *arguments], cwd=tmp_path, env=environment,
                                 capture_output=True, timeout=60)
        errors = process.stderr.decode('ascii')
        assert process.returncode == status, (arguments, errors)
        assert_is_text(process.stdout.decode('utf-8') + errors)       # infer and evaluate always write UTF-8
        assert status == 0 or len(errors.splitlines()) == 1
