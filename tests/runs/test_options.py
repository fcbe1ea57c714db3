"""Tests training options: bounds, required combinations, and options without effect.

Options come from the command line, from a file of options, or from the record of a run.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from dataclasses import fields

from ms_crf.base.errors import OptionError
from ms_crf.cli import compare, console, evaluate, export, infer, report, serve, train
from ms_crf.runs.options import Options, dashed

import pytest

from support.paths import ROOT
from support.trainings import options_of


def refused(arguments):
    with pytest.raises(OptionError) as raised:
        options_of(arguments)
    text = raised.value.with_options(console.option_name)
    assert text.isprintable() and len(text) < 300
    return text


# Options without effect: the arguments, the reason in the message, and arguments that give the option an effect.
IDLE = [
    ('--weight-decay 0.1', 'with --optimizer adam, only with adamw or sgd', '--optimizer adamw'),
    ('--momentum 0.9', 'with --optimizer adam, only with sgd', '--optimizer sgd'),
    ('--optimizer adamw --momentum 0.5', 'with --optimizer adamw, only with sgd', '--optimizer sgd'),
    ('--decay 0.05', 'with --schedule cosine, only with inverse', '--schedule inverse'),
    ('--schedule constant --warmup 0.5', 'with --schedule constant, only with cosine', '--schedule cosine'),
    ('--head softmax --crf-rate 5', 'with --head softmax, only with crf', '--head crf'),
    ('--head softmax --no-constraints', 'with --head softmax, only with crf', '--head crf'),
    ('--char none --char-dim 30', 'with --char none, only with cnn or lstm', '--char lstm'),
    ('--char none --char-width 50', 'with --char none, only with cnn or lstm', '--char cnn'),
    ('--char none --char-length 16', 'with --char none, only with cnn or lstm', '--char cnn'),
    ('--embeddings x --word-dim 100', 'with --embeddings', '--embeddings='),
    ('--encoder x --word-dim 100', 'with --encoder', '--encoder='),
    ('--encoder x --char-dim 30', 'with --encoder', '--encoder='),
    ('--encoder x --unknown 0.25', 'with --encoder', '--encoder='),
    ('--encoder x --word-rate 1', 'with --encoder', '--encoder='),
    ('--encoder-link', 'without --encoder', '--encoder x'),
    ('--encoder-lr 0', 'without --encoder', '--encoder x'),
    ('--encoder x --encoder-lstm 0 --dropout-between 0.5', 'with --encoder-lstm 0', '--encoder-lstm 4'),
    ('--dropout-embedding 0 --dropout-between 0 --dropout-kind free', 'with --dropout-embedding 0',
     '--dropout-between 0.1'),
    ('--encoder x --encoder-lstm 0 --dropout-embedding 0 --dropout-kind free', 'with --dropout-embedding 0',
     '--dropout-embedding 0.1'),
    ('--add 0.1', 'with --model bilstm, only with hmm', '--model hmm'),
    ('--model hmm --seed 1', 'with --model hmm, only with bilstm', '--model bilstm'),
    ('--model hmm --encoder x', 'with --model hmm, only with bilstm', '--model bilstm'),
    ('--train a.jsonl --dev b.jsonl.gz --columns 0,-1', 'with JSON lines', '--test c.tsv'),
]


@pytest.mark.parametrize('text,why,remedy', IDLE)
def test_options_an_option_that_does_nothing_is_refused(text, why, remedy, tmp_path):
    given = text.split()
    name = next(word for word in reversed(given) if word.startswith('--'))
    assert refused(given) == f'{name.replace("--no-", "--")} has no effect {why}; omit it'
    options_of(given + remedy.split())                           # with the remedy, the option is accepted
    rest = given[:max(place for place, word in enumerate(given) if word == name)]
    options_of(rest)  # without the option, the rest is accepted: defaults are never rejected
    file, record = tmp_path / 'options.json', {}
    for place, word in enumerate(given):
        if word.startswith('--'):
            dashed_name = word.removeprefix('--').removeprefix('no-')
            kind = next(entry.type for entry in fields(Options) if dashed(entry.name) == dashed_name)
            value = given[place + 1] if place + 1 < len(given) else None
            record[dashed_name] = word[:5] != '--no-' if kind is bool else kind(value)
    file.write_text(json.dumps(record))
    assert f'has no effect {why}' in refused(['--config', str(file)])


def test_options_every_number_has_bounds():
    for entry in fields(Options):
        if entry.type not in (int, float):
            continue
        name, most, least = dashed(entry.name), entry.metadata['most'], entry.metadata['least']
        for value, bound in ((10 ** 40, f'most {most}'), (-10 ** 40, f'least {least}')):
            expected = f'--{name} must be at {bound}, got '
            assert refused([f'--{name}={value}']).startswith(expected)
            with pytest.raises(OptionError) as raised:
                Options.read({entry.name: value}, 'config.json')
            assert expected in raised.value.with_options(console.option_name)
        getattr(Options(**{entry.name: most}), entry.name)
    assert refused(['--hidden', '4000000000']) == '--hidden must be at most 65536, got 4000000000'


@pytest.mark.parametrize('arguments,message', [
    (['--hidden', 'x'], "argument --hidden: expected a whole number, got 'x'; see --help"),
    (['--hidden', '9' * 5000], 'argument --hidden: expected a whole number, got \'999'),
    (['--hidden', '9' * 4000], '--hidden must be at most 65536, got a number of 4'),
    (['--learning-rate', 'fast'], "argument --learning-rate: expected a number, got 'fast'"),
    (['--learning-rate', 'nan'], '--learning-rate must be at least 1e-12, got nan'),
    (['--clip', 'inf'], '--clip must be at most 1000000000.0, got inf'),
    (['--columns', '-1,0'],
     'argument --columns: expected one argument; write --columns=... if the value begins with -'),
    (['--hiden', '4'], 'unrecognized arguments: --hiden 4; did you mean --hidden?'),
    (['--word_dim=4'], 'unrecognized arguments: --word_dim=4; did you mean --word-dim?'),
    (['--no-constraint'], 'unrecognized arguments: --no-constraint; did you mean --no-constraints?'),
    (['--frobnicate'], 'unrecognized arguments: --frobnicate; see --help'),
    (['corpus.tsv'], 'unrecognized arguments: corpus.tsv; did you mean --train corpus.tsv?'),
    (['--x' * 200], "unrecognized arguments: '--x--x"), (['a\nb'], r"unrecognized arguments: 'a\nb'; did you mean"),
    (['--char', 'ccn'], "argument --char: invalid choice: 'ccn' (choose from cnn, lstm, none); did you mean cnn?"),
    (['--device', 'cpu'], "argument --device: invalid choice: 'cpu' (choose from auto, CPU, GPU, Ascend); did you m"),
    (['--head', 'x' * 900], "argument --head: invalid choice: 'xxx"),
    (['--resume', 'a', '--resume=b'], '--resume appears twice, expected it once'),
    (['--train', 'mine.tsv'], '--train needs --dev, a file of tagged sentences'),
])
def test_options_a_faulty_command_line(arguments, message):
    assert refused(arguments).startswith(message)


@pytest.mark.parametrize('text,message', [
    ('{"hidden": 8, "hidden": 8}', "'hidden' appears twice, expected it once"),
    ('{"word_dim": 8, "word-dim": 8}', "'word-dim' appears twice, expected it once"),
    ('{"hiden": 8}', "unknown option 'hiden'; did you mean hidden?"), ('{"zzz": 8}', "unknown option 'zzz'"),
    ('{"learning_rate": NaN}', 'expected a JSON object of options: NaN is not a finite number'),
    ('{"learning_rate": -Infinity}', '-Infinity is not a finite number'),
    ('{"learning_rate": 1e999}', '1e999 is too large for a number'),
    ('{"hidden": ' + '9' * 5000 + '}', 'expected a JSON object of options: Exceeds the limit'),
    ('{"hidden": ' + '9' * 4000 + '}', '--hidden must be at most 65536, got a number of 4'),
    ('{"hidden": 8.0}', '--hidden must be a whole number, got 8.0'),
    ('{"hidden": true}', '--hidden must be a whole number, got True'),
    ('{"char": "CNN"}', "--char must be one of cnn, lstm, none, got 'CNN'; did you mean cnn?"),
    ('{"char": ["cnn"]}', "--char must be one of cnn, lstm, none, got ['cnn']"),
    ('{"train": null}', '--train must be text, got None'),
    ('{"save": "a\\u0000b"}', r"--save must be a path without NUL characters, got 'a\x00b'"),
    ('{"test": "\\ud800"}', r"--test must be a path in UTF-8, got '\ud800'"),
    ('{"encoder": "%s"}' % ('n' * 300), '--encoder must be a shorter path, got one that is too lo'),
    ('{"save": ""}', '--save must be a name, got nothing'), ('{"train": "x.tsv"}', '--train needs --dev, a file'),
    ('[]', 'expected a JSON object of options, got list'),
    ('', 'options.json:1: expected a JSON object of options: Expecting value at column 1'),
    ('[' * 100000, 'expected a JSON object of options: it is nested too deeply'),
    ('{"hidden": 8,}', 'expected a JSON object of options: Expecting property name'),
])
def test_options_a_faulty_file_of_options(tmp_path, text, message):
    file = tmp_path / 'options.json'
    file.write_text(text)
    assert message in refused(['--config', str(file)])
    file.write_bytes(b'\xef\xbb\xbf' + text.encode())  # with a byte order mark, as some editors on Windows write it
    assert message in refused(['--config', str(file)])


def test_options_files_of_options_that_can_not_be_read(tmp_path):
    latin = tmp_path / 'latin.json'
    latin.write_bytes(b'{"train": "caf\xe9"}')
    assert refused(['--config', str(latin)]) == f'{latin}: expected UTF-8, got byte 0xe9'
    assert refused(['--config', str(tmp_path)]) == f'{tmp_path}: cannot be read: Is a directory'
    assert refused(['--config', str(tmp_path / 'no')]) == f'{tmp_path}/no: cannot be read: No such file or directory'


def test_options_from_a_file_and_the_command_line(tmp_path):
    file = tmp_path / 'options.json'
    file.write_text('\ufeff{"hidden": 10, "char": "lstm", "learning-rate": 1, "constraints": false}')
    options = options_of(['--config', str(file), '--hidden', '12', '--no-constraints'])
    assert (options.hidden, options.char, options.learning_rate, options.constraints) == (12, 'lstm', 1, False)
    assert options.epochs == Options().epochs


def test_options_whole_numbers_become_floats_where_an_option_is_a_float():
    """Checks that whole numbers become floats where an option is a float.

    In JSON and in Python, users may write 0 instead of 0.0. Some operators of MindSpore do not accept an integer.
    """
    options = Options(**{entry.name: 1 for entry in fields(Options) if entry.type is float})
    assert {type(getattr(options, entry.name)) for entry in fields(Options) if entry.type is float} == {float}
    assert type(Options(hidden=1).hidden) is int


def test_options_the_sample_is_not_mixed_with_other_corpora(tmp_path):
    assert options_of(['--train', 'x.tsv', '--dev', 'y.tsv']).test == ''
    assert options_of([]).test == str(ROOT / 'data' / 'test.tsv')
    # An option counts as set by the user even if its value equals the default.
    options = options_of(['--train', 'x.tsv', '--dev', 'data/dev.tsv', '--test', 'data/test.tsv'])
    assert (options.dev, options.test) == ('data/dev.tsv', 'data/test.tsv')
    file = tmp_path / 'options.json'
    file.write_text('{"train": "x.tsv", "dev": "data/dev.tsv"}')
    assert options_of(['--config', str(file)]).test == ''
    assert options_of(['--dev', 'y.tsv']).train == str(ROOT / 'data' / 'train.tsv')


@pytest.mark.parametrize('command,option', [
    (train, '--train'), (train, '--dev'), (train, '--test'), (train, '--save'),
    (train, '--embeddings'), (train, '--encoder'), (train, '--encoder-cache'),
    (train, '--config'), (train, '--resume'), (infer, '--run'), (infer, '--mindir'),
    (infer, '--input'), (infer, '--output'), (export, '--run'), (export, '--output'),
    (compare, '--train'), (compare, '--dev'), (compare, '--test'), (compare, '--json'), (compare, '--keep'),
    (evaluate, '--run'), (evaluate, '--mindir'), (evaluate, '--input'), (evaluate, '--json'),
    (report, '--input'), (report, '--output'), (serve, '--run'), (serve, '--mindir'), (serve, '--token-file')])
def test_options_names_that_no_file_has(command, option, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, expected in (('a\0b', 'a path without NUL characters, got'), ('a\ud800', 'a path in UTF-8, got'),
                           ('n' * 300, 'a shorter path, got one that is too long for the file system'),
                           ('', 'a name, got nothing')):
        if not path and option in ('--test', '--embeddings', '--encoder', '--encoder-cache') and (
                command is train):
            continue
        needed = {compare: ('--train', '--dev', '--test'), evaluate: ('--input',),
                  train: ('--dev',) * (option == '--train')}
        others = [word for name in needed.get(command, ()) if name != option for word in (name, 'absent.tsv')]
        assert command.main([*others, f'{option}={path}']) == 2
        shown = capsys.readouterr()
        assert f': {option} must be {expected}' in shown.err and len(shown.err.splitlines()) == 1
        assert shown.err.isascii() and shown.out == ''
    assert not list(tmp_path.iterdir())


def test_options_help_shows_groups_and_defaults(capsys):
    assert train.main(['--help']) == 0
    text = ' '.join(capsys.readouterr().out.split())
    for name, value in Options().to_json().items():
        assert f'--{dashed(name)}' in text
        of_sample = name in ('train', 'dev', 'test')             # these paths depend on the folder of the package
        assert value in ('', None) or of_sample or f'(default: {value})' in text, name
    assert text.count('sample corpus') == 4 and str(ROOT) not in text
    assert '(default: None)' not in text and 'default: 40, or as many' in text
    assert '(default: )' not in text and not {'STR', 'INT', 'FLOAT'} & set(text.replace(']', ' ').split())
    assert '--train FILE' in text and '--save DIR' in text and '--hidden N' in text and '--learning-rate RATE' in text
    for group in ('General', 'Files', 'Model', 'Regularization', 'Optimization'):
        assert f'{group}:' in text


@pytest.mark.parametrize('name', ['train', 'infer'])
def test_options_commands_as_modules(name):
    result = subprocess.run([sys.executable, '-m', 'ms_crf', name, '--hepl'], cwd=ROOT, capture_output=True,
                            text=True, timeout=60, env={**os.environ, 'COLUMNS': '100'})
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr == f'ms-crf {name}: unrecognized arguments: --hepl; did you mean --help?\n'


# Help and hints of all commands

@pytest.mark.parametrize('verb', console.VERBS)
def test_options_each_default_is_shown_once(verb):
    """Checks that the help of each command shows each default once; the parser formats the help.

    `compare` also lists training options whose defaults it does not use. The help of these options may have no default.
    """
    made = importlib.import_module(f'ms_crf.cli.{verb.replace("-", "_")}').parser()
    for action in made._actions:
        if action.help in (None, argparse.SUPPRESS):
            continue
        shown = made._get_formatter()._expand_help(action)
        assert shown.count('(default') <= 1, f'{verb} {action.option_strings}: {shown}'
        trained = verb == 'compare' and action.dest in ('train', 'dev', 'test', 'columns', 'scheme')
        if isinstance(action.default, (str, int, float)) and not trained and action.nargs != 0 and action.default != '':
            assert '(default' in shown, f'{verb} {action.option_strings}: {shown}'


@pytest.mark.parametrize('command,arguments,hint', [
    (train, ['--lr', '0.1'], '--learning-rate'), (train, ['--bs', '8'], '--batch-size'),
    (train, ['--bs=8'], '--batch-size'), (train, ['-lr', '0.1'], '--learning-rate'),
    (train, ['--wd', '0.1'], '--word-dim or --weight-decay'), (train, ['--emb', 'x'], '--embeddings'),
    (train, ['--epoch', '1'], '--epochs'), (train, ['a.txt'], '--train a.txt'),
    (infer, ['a.txt'], '--input a.txt'), (infer, ['absent.txt'], '--input absent.txt or --text absent.txt'),
    (evaluate, ['a.txt'], '--input a.txt'), (compare, ['a.txt'], '--train a.txt')])
def test_options_a_hint_for_what_is_no_option(command, arguments, hint, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'a.txt').write_text('')
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.endswith(f'; did you mean {hint}?\n') and error.count('\n') == 1
