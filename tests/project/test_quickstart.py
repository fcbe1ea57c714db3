"""The quick starts: their commands run on the corpora of examples/quickstart and print the output on the pages."""

import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from ms_crf.api import convert
from ms_crf.cli import console as commands

import pytest

from support.documents import console
from support.paths import ROOT
from support.trainings import printed

PAGES = ['english_names', 'chinese_names', 'word_segmentation', 'parts_of_speech', 'fine_tuning_bert',
         'annotation_loop']
EXAMPLES = ROOT / 'examples' / 'quickstart'
OUTPUTS = ('--save', '--output')
#: Options that replace the --epochs of a page, to save time; the tags on these pages are not compared.
INSTEAD = {'fine_tuning_bert': ['--epochs', '1', '--encoder-lstm', '0'], 'parts_of_speech': ['--epochs', '2']}
#: The second training of the annotation loop; a hidden Markov model replaces the network to save time.
SECOND, COUNTED = 'runs/round-1', ['--model', 'hmm']


@pytest.fixture(scope='module')
def folder(tmp_path_factory, encoder):
    """A folder with links to the examples and to an encoder; the commands run here and write their runs here."""
    folder = tmp_path_factory.mktemp('quickstart')
    (folder / 'examples').symlink_to(ROOT / 'examples', target_is_directory=True)
    (folder / 'minilm').symlink_to(encoder, target_is_directory=True)
    return folder


@pytest.fixture(scope='module')
def trained():
    """A cache of finished trainings by their options, because two pages have the same training."""
    return {}


def arguments_of(command):
    """(verb, arguments) of a command of ms_crf; None for any other command."""
    words = shlex.split(command)
    if words[:2] in (['python', 'train.py'], ['python', 'infer.py']):
        return words[1].removesuffix('.py'), words[2:]
    return (words[1], words[2:]) if words[0] == 'ms-crf' else None


def inputs(verb, arguments):
    """The words of a command line that name input files."""
    if verb == 'convert':
        return arguments[:1]
    return [word for before, word in zip(['', *arguments], arguments) if before not in OUTPUTS and (
        word.startswith('runs/') or re.search(r'\.(tsv|txt|jsonl?|gz|conllu)$', word))]


def train(arguments, page, trained):
    """Trains, or copies a run that was trained with the same options; returns the result of the training command."""
    if SECOND in arguments or page in INSTEAD:
        at = arguments.index('--epochs')
        arguments = arguments[:at] + (COUNTED if SECOND in arguments else INSTEAD[page]) + arguments[at + 2:]
    at = arguments.index('--save')
    key = tuple(arguments[:at] + arguments[at + 2:])
    if key in trained:
        former, output = trained[key]
        shutil.copytree(former, arguments[at + 1])
        return output
    trained[key] = arguments[at + 1], printed(importlib.import_module('ms_crf.cli.train').main, *arguments)
    return trained[key][1]


def run(command, page, trained):
    """(status, output, errors) of a command; None if it needs a file that only the reader has, or another program."""
    if command.startswith('cat '):
        result = subprocess.run(command, shell=True, capture_output=True, text=True)
        return result.returncode, result.stdout, result.stderr
    if (parsed := arguments_of(command)) is None:
        return None
    verb, arguments = parsed
    if not all(Path(name).exists() for name in inputs(verb, arguments)):
        return None
    if verb == 'train':
        return train(arguments, page, trained)
    module = importlib.import_module(f'ms_crf.cli.{verb.replace("-", "_")}')
    return printed(module.main, *arguments)


def masked(line, page):
    """A line with # for all numbers that depend on the weights or on time.

    For pages in INSTEAD the predicted tags are removed, too, because the shortened training predicts other tags.
    """
    line = ' '.join(line.split())
    if page in INSTEAD:
        line = re.sub(r'\[([^]]*) [A-Z]+\]', r'\1', line)                  # names in brackets
        line = re.sub(r'(\S)[/ ](?:[A-Z]{3,5})\b', r'\1', line)             # parts of speech
    if re.match(r'train |dev |scheme:|\S+\.tsv: ', line):
        return line
    return re.sub(r'\d[\d.,]*(?:e-\d+)?', '#', line)


def assert_shown(shown, output, page):
    """Checks that the output consists of the shown lines; three dots stand for omitted lines."""
    expected, lines = ([masked(line, page) for line in text] for text in (shown, output.splitlines()))
    groups, at = [[]], 0
    for line in expected:
        groups.append([]) if line == '...' else groups[-1].append(line)
    for number, group in enumerate(groups):
        places = [place for place in range(at, len(lines) - len(group) + 1) if lines[place:place + len(group)] == group]
        assert places and (number or places[0] == 0), (group, lines)
        at = places[0] + len(group)
    assert expected[-1:] == ['...'] or at == len(lines), (shown, lines)


@pytest.mark.slow
@pytest.mark.parametrize('page', PAGES)
def test_quickstart_commands_print_what_is_shown(page, folder, trained, monkeypatch):
    monkeypatch.chdir(folder)
    done = []
    for command, shown in console(ROOT / 'docs' / 'quickstart' / f'{page}.md'):
        result = run(command, page, trained)
        if result is None:
            assert not [line for line in shown if line], f'{command}: its output is shown, but was not checked'
            continue
        status, output, errors = result
        assert status == 0, errors
        assert_shown(shown, errors + output if command.startswith('ms-crf ') else output, page)
        done.append(command)
    assert sum('train.py' in command for command in done) in (1, 2) and len(done) >= 2


def test_quickstart_corpora_are_small_and_complete():
    """Each task has a train and a dev file, with 10 to 99 sentences."""
    tasks = {path.name.removesuffix('_train.tsv') for path in EXAMPLES.glob('*_train.tsv')}
    assert tasks == {path.name.removesuffix('_dev.tsv') for path in EXAMPLES.glob('*_dev.tsv')} == set(PAGES[:4])
    for path in EXAMPLES.glob('*.tsv'):
        assert 9 < path.read_text(encoding='utf-8').count('\n\n') < 100


def test_quickstart_the_export_is_of_the_unlabelled_text(tmp_path):
    result = convert(EXAMPLES / 'label_studio_export.json', tmp_path / 'out.tsv', splitter='blanks')
    sentences = [' '.join(row.split('\t')[0] for row in block.splitlines())
                 for block in (tmp_path / 'out.tsv').read_text(encoding='utf-8').strip().split('\n\n')]
    assert result.texts == len(sentences) == 8
    assert set(sentences) < set((EXAMPLES / 'unlabelled.txt').read_text(encoding='utf-8').splitlines())


def test_quickstart_every_page_is_tested_here_or_with_the_server():
    pages = {path.stem for path in (ROOT / 'docs' / 'quickstart').glob('*.md')}
    assert pages == {*PAGES, 'production_server'}
    for path in (ROOT / 'docs' / 'quickstart').glob('*.md'):
        text = path.read_text(encoding='utf-8')
        assert len(text.splitlines()) <= 120 and '```console\n$ pip install ' in text[:800], path.name
        for verb in (command.split()[1] for command, _ in console(path) if command.startswith('ms-crf ')):
            assert verb in commands.VERBS
