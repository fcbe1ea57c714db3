"""README and docs/: programs print the shown output, commands parse, links work, and named files and options exist."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields

from ms_crf.cli import console
from ms_crf.runs.options import Options, dashed

import pytest

from support.documents import blocks, prose
from support.paths import ROOT
from support.trainings import options_of

PAGES = [ROOT / name for name in ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'configs/README.md')]
PAGES += sorted((ROOT / 'docs').rglob('*.md'))
by_page = pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
ENTRIES = {'train.py': 'train', 'infer.py': 'infer', 'ms_crf.export': 'export', 'ms_crf.compare': 'compare'}
CONFIGS = sorted((ROOT / 'configs').glob('*.json'))


def code_in(page):
    """The text in backticks in prose and tables."""
    return re.findall(r'`([^`\n]+)`', prose(page))


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r'^#+ (.*)$', prose(page), re.M)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-') for heading in headings}


def commands(page):
    """The commands of a page as lists of words, from its code blocks and from text in backticks."""
    lines = [line[2:] for _, text in blocks(page, 'console') for line in text.splitlines() if line.startswith('$ ')]
    lines += [line for _, text in blocks(page, 'bash') for line in text.splitlines()]
    lines += [code for code in code_in(page) if code.startswith(('python ', 'ms-crf ', 'pip '))]
    parts = [part for line in lines for part in re.split(r' && | < ', line)]
    return [shlex.split(part) for part in parts if not re.search(r'\.\.\.|…', part)]


def test_docs_the_readme_is_short():
    assert len((ROOT / 'README.md').read_text(encoding='utf-8').splitlines()) <= 150


def test_docs_the_readme_has_its_two_commands_where_the_checks_read_them():
    """`.ci/run` takes the first two lines of the README's bash blocks: set-up, and tests."""
    assert [text for _, text in blocks(ROOT / 'README.md', 'bash')] == [
        'pip install -r requirements.txt && python train.py\n',
        'pip install -r requirements-dev.txt && python -m pytest\n']


@by_page
def test_docs_links_lead_somewhere(page):
    for target in re.findall(r'\]\(([^)\s]+)\)', prose(page)):
        if '://' not in target:
            name, _, anchor = target.partition('#')
            file = (page.parent / name).resolve() if name else page
            assert file.exists() and ROOT in (file, *file.parents), target
            assert not anchor or anchor in anchors(file), target


def test_docs_the_index_lists_every_page():
    """Each page is listed once: experiments in `docs/experiments/README.md`, all other pages in `docs/README.md`."""
    folder = ROOT / 'docs'
    pages = {str(page.relative_to(folder)) for page in folder.rglob('*.md') if page.name != 'README.md'}
    experiments = {page for page in pages if page.startswith('experiments/')}
    for index, expected in (('', pages - experiments), ('experiments/', experiments)):
        listed = re.findall(r'^\| \[[^]]*\]\(([^)#]+)\)', prose(folder / index / 'README.md'), re.M)
        assert sorted(index + target for target in listed) == sorted(expected)


@pytest.mark.parametrize('page', [page for page in PAGES if 'docs' in page.parts and 'experiments' not in page.parts],
                         ids=lambda page: str(page.relative_to(ROOT)))
def test_docs_pages_are_short(page):
    assert len(page.read_text(encoding='utf-8').splitlines()) <= 120


@by_page
def test_docs_files_that_are_named_are_there(page):
    """Each path in prose or in a command that begins with a known folder names an existing file or folder."""
    folders = 'ms_crf|tests|docs|deploy|examples|configs|benchmarks|data|crf|nn|text|models|training'
    names = re.findall(rf'(?<![\w./-])(?:{folders})/[\w./-]*\w', prose(page))
    names += [word for words in commands(page) for word in words if word.endswith('.py') or 'requirements' in word]
    assert names or page not in (ROOT / 'README.md', ROOT / 'docs' / 'architecture.md')
    for name in names:
        if name == 'text/html':                  # a media type
            continue
        places = (ROOT / name, ROOT / 'ms_crf' / name, ROOT / 'ms_crf' / f'{name}.py')
        assert any(place.exists() for place in places), name


# Runs each program in its own folder; prints the path of the program, then the program's output.
RUN_ALL = """
import contextlib, json, os, runpy, sys, traceback
for path in sys.argv[1:]:
    print(json.dumps(path))
    os.chdir(os.path.dirname(path))
    with contextlib.redirect_stderr(sys.stdout):
        try:
            runpy.run_path(path)
        except Exception:
            traceback.print_exc()
"""
WITH_PROGRAMS = [page for page in PAGES if blocks(page, 'python')]


@pytest.fixture(scope='module')
def programs(undisturbed, tmp_path_factory):
    """For each page a list of (program, output that the page shows or None, actual output).

    Each program is a file, because ms.jit reads files. All run in one process, because importing MindSpore takes
    seconds. A run on a corpus of the tests stands in for runs/sample.
    """
    folder, listed = tmp_path_factory.mktemp('programs'), []
    for number, page in enumerate(WITH_PROGRAMS):
        (folder / str(number) / 'runs').mkdir(parents=True)
        (folder / str(number) / 'runs' / 'sample').symlink_to(undisturbed[0], target_is_directory=True)
        for language, text in blocks(page):
            if language == 'python':
                path = folder / str(number) / f'program{len(listed)}.py'
                path.write_text(text, encoding='utf-8')
                listed.append([page, path, None])
            elif language == 'text' and listed and listed[-1][0] == page:
                listed[-1][2] = text
    clean = {name: value for name, value in os.environ.items() if name not in ('GLOG_v', 'MS_DEV_HOST_BLOCKING_RUN')}
    result = subprocess.run([sys.executable, '-c', RUN_ALL, *(str(path) for _, path, _ in listed)], text=True,
                            capture_output=True, timeout=500, env={**clean, 'PYTHONPATH': str(ROOT)})
    assert (result.returncode, result.stderr) == (0, '')
    shown = re.split(r'^"(.*program\d+\.py)"\n', result.stdout, flags=re.M)[1:]
    assert shown[::2] == [str(path) for _, path, _ in listed]
    by_page = {page: [] for page in WITH_PROGRAMS}
    for (page, path, expected), output in zip(listed, shown[1::2]):
        by_page[page].append((path.read_text(encoding='utf-8'), expected, output))
    return by_page


@pytest.mark.slow
@pytest.mark.parametrize('page', WITH_PROGRAMS, ids=lambda page: str(page.relative_to(ROOT)))
def test_docs_programs_print_what_is_shown_below_them(page, programs):
    for program, expected, output in programs[page]:
        if expected is not None:
            assert output == expected
        else:
            assert 'runs/sample' in program and "'O'" in output


UNDERSTAND = """
import importlib, json, os, sys
from ms_crf.cli import train
from ms_crf.cli.parser import load_plugin, parse
from ms_crf.training.train import ON_RESUME, named_options
for verb, words in json.load(sys.stdin):
    try:
        if verb == 'train' and '--resume' in words:
            _, given = parse(train.parser, words)
            assert set(named_options(None, given)) <= set(ON_RESUME), 'options that --resume does not take'
        elif verb == 'train' and '--init' in words:              # of a run that is not there
            parse(train.parser, words)
        elif verb == 'train' and ('--config' not in words or os.path.exists(words[words.index('--config') + 1])):
            train.options_of(words)
        else:
            load_plugin(words)
            importlib.import_module(f'ms_crf.cli.{verb}'.replace('-', '_')).parser().parse_args(words)
    except Exception as error:
        print(verb, *words, ':', error)
"""


def test_docs_commands_are_understood():
    """The parser of each command accepts the commands of the pages; S stands for a seed.

    The commands are parsed in the root folder of the repository.
    """
    named = []
    for page in PAGES:
        for words in commands(page):
            if words[:2] == ['python', '-m'] and words[2] in ENTRIES:
                named.append((ENTRIES[words[2]], words[3:]))
            elif words[0] == 'python' and words[1] in ENTRIES:
                named.append((ENTRIES[words[1]], words[2:]))
            elif words[0] == 'ms-crf' and len(words) > 2:
                named.append((words[1], words[2:]))
    assert {verb for verb, _ in named} == set(console.VERBS)
    named = [(verb, ['1' if word == 'S' else word for word in words]) for verb, words in named if words != ['--help']]
    result = subprocess.run([sys.executable, '-c', UNDERSTAND], cwd=ROOT, input=json.dumps(named), capture_output=True,
                            text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, '', '')


def test_docs_options_that_are_named_exist():
    texts = [path.read_text(encoding='utf-8') for path in (ROOT / 'benchmarks').glob('*.py')]
    known = {'--version', '--help', *re.findall(r"'(--[a-z-]+)'", '\n'.join(texts))}
    for verb in console.VERBS:
        parser = importlib.import_module(f'ms_crf.cli.{verb.replace("-", "_")}').parser()
        known |= {name for action in parser._actions for name in action.option_strings}
    for page in PAGES:
        for code in code_in(page):
            for option in re.findall(r'(?<!\S)--[a-z][a-z-]*', code):
                assert option in known, f'{page.name}: {option}'


def test_docs_every_option_of_a_training_is_explained():
    text = (ROOT / 'docs' / 'training_options.md').read_text(encoding='utf-8')
    for entry in fields(Options):
        assert re.search(rf'^\| `--{dashed(entry.name)}[ `]', text, re.M), entry.name


def rows_of_results():
    """(file, options) of the rows of `docs/results.md` that name a configuration file and its options."""
    text = (ROOT / 'docs' / 'results.md').read_text(encoding='utf-8')
    return re.findall(r'^\|[^|]*\| \[(\w+\.json)\]\([^)]*\) \| (?:`([^`|]*)`)? *\|', text, re.M)


@pytest.mark.parametrize('file,options', [(file, options) for file, options in rows_of_results()])
def test_docs_a_file_of_options_means_what_its_row_says(file, options):
    corpus = ['--train', 'train.tsv', '--dev', 'dev.tsv']
    source, *others = shlex.split(options) or ['']
    named = {'V': ['--embeddings', 'glove.txt'], 'M': ['--encoder', 'minilm'], '': []}[source]
    assert options_of([*corpus, *named, '--config', str(ROOT / 'configs' / file)]) == options_of(
        [*corpus, *named, *others])


def test_docs_every_file_of_options_has_its_row():
    assert {file for file, _ in rows_of_results()} == {path.name for path in CONFIGS} and CONFIGS
