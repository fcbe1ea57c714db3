"""`ms-crf report`: the HTML of its pages for all types of runs, and the runs and arguments that are refused."""

import hashlib
import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from ms_crf import Tagger
from ms_crf.cli import evaluate, report, train
from ms_crf.reports import pictures
from ms_crf.runs import records
from ms_crf.runs.run import SavedRun
from ms_crf.text.schemes import allowed_transitions

import numpy as np
import pytest

from support.corpora import write_corpus
from support.paths import ROOT
from support.runs import write_tensors
from support.trainings import SMALL, files

if importlib.util.find_spec('jinja2') is None or importlib.util.find_spec('matplotlib') is None:
    pytest.skip('Jinja or matplotlib is missing: pip install -r requirements-report.txt', allow_module_level=True)
VOID = {'meta', 'br', 'link', 'img', 'input', 'hr'}
EVIL = '<script>alert("1")</script>'


class Page(HTMLParser):
    """The parsed elements of a page, with attributes, text and ancestors; each element must be closed."""

    def __init__(self, text):
        super().__init__()
        self.text, self.elements, self._open, self.unclosed = text, [], [], []
        self.feed(text)
        self.close()
        assert not self._open and not self.unclosed

    def handle_starttag(self, tag, attributes):
        element = {'tag': tag, 'attributes': dict(attributes), 'text': '', 'within': [one['tag'] for one in self._open],
                   'parent': self._open[-1] if self._open else None}
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        if self._open and self._open[-1]['tag'] == tag:
            self._open.pop()
        else:
            self.unclosed.append(tag)

    def handle_data(self, data):
        for element in self._open:
            element['text'] += data

    def all(self, tag, **attributes):
        return [one for one in self.elements if one['tag'] == tag
                and all(one['attributes'].get(name) == value for name, value in attributes.items())]

    def under(self, element):
        """The descendants of an element."""
        found = []
        for one in self.elements:
            parent = one['parent']
            while parent is not None and parent is not element:
                parent = parent['parent']
            if parent is element:
                found.append(one)
        return found

    def table(self, caption):
        """The rows of the only table whose caption begins with this text, as lists of texts."""
        [found] = [table for table in self.all('table') if self.under(table)[0]['text'].startswith(caption)]
        inside = self.under(found)
        return [[cell['text'] for cell in inside if cell['parent'] is row] for row in inside if row['tag'] == 'tr']

    def section(self, name):
        """The text of the section with this name, with single spaces."""
        [found] = self.all('section', **{'aria-labelledby': name})
        return ' '.join(found['text'].split())


def check(page):
    """Checks the rules for every page: it loads nothing, has no scripts, and is accessible to screen readers."""
    assert page.text.isprintable() or not re.search('[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]', page.text)
    assert not page.all('script') and not page.all('img') and not page.all('link') and not page.all('iframe')
    for one in page.elements:
        for name, value in one['attributes'].items():
            assert not name.startswith('on') and name not in ('src', 'srcset', 'action', 'data', 'poster')
            if name in ('href', 'xlink:href'):
                assert value.startswith('#')
            assert 'url(' not in (value or '').replace('url(#', ''), value
            assert ':' not in name or name.startswith('xml')
    assert 'http' not in re.sub(r'http-equiv', '', re.sub(r'<dd.*?</dd>', '', page.text, flags=re.S))
    assert '@import' not in page.text
    [policy] = page.all('meta', **{'http-equiv': 'Content-Security-Policy'})
    assert "default-src 'none'" in policy['attributes']['content'] and page.all('html', lang='en')
    assert page.all('meta', name='viewport')
    ids = [one['attributes']['id'] for one in page.elements if 'id' in one['attributes']]
    assert len(ids) == len(set(ids))
    named = [name for one in page.elements for key in ('aria-labelledby', 'href') if key in one['attributes']
             for name in one['attributes'][key].replace('#', '').split()]
    assert set(named) <= set(ids)
    levels = [int(one['tag'][1]) for one in page.elements if re.fullmatch('h[1-6]', one['tag'])]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    for svg in [one for one in page.all('svg') if 'svg' not in one['within']]:
        assert svg['attributes']['role'] == 'img'
        [title, words] = [one for one in page.under(svg) if one['tag'] in ('title', 'desc')]
        assert title['text'] and re.search(r'\d', words['text'])
        assert svg['attributes']['aria-labelledby'].split() == [title['attributes']['id'], words['attributes']['id']]
    for table in page.all('table'):
        inside = page.under(table)
        assert inside[0]['tag'] == 'caption' and inside[0]['text']
        assert all(one['attributes'].get('scope') in ('row', 'col') for one in inside if one['tag'] == 'th')
    for box in [one for one in page.elements if one['attributes'].get('class') in ('scroll', 'card')]:
        assert box['attributes']['tabindex'] == '0' and box['attributes']['aria-label']


@pytest.fixture
def write(tmp_path, capsys):
    """Writes a report in this process, which must print only the path of the page; returns the parsed page."""
    def call(*arguments):
        capsys.readouterr()
        path = tmp_path / 'page.html'
        assert report.main([*map(str, arguments), '--output', str(path)]) == 0
        output, errors = capsys.readouterr()
        assert errors == '' and output.startswith('the report of ') and output.endswith(f' is in {path}\n')
        page = Page(path.read_text(encoding='utf-8'))
        check(page)
        return page
    return call


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """Runs a report command that must be refused without writing a file; returns its error message of one line."""
    def call(*arguments):
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        assert report.main(list(map(str, arguments))) == 2
        output, errors = capsys.readouterr()
        assert output == '' and len(errors.splitlines()) == 1 and not (tmp_path / 'report.html').exists()
        return errors.removeprefix('ms-crf report: ').rstrip('\n')
    return call


# Types of runs

def test_report_a_hidden_markov_model(write, hmm, corpora, tmp_path):
    page = write(hmm)
    tagger = Tagger.load(hmm)
    assert page.all('h1')[0]['text'] == f'Report of {hmm}'
    assert f'{corpora}/test.tsv, the test file: 6 sentences' in page.all('header')[0]['text']
    rows = page.table('Exact entities: same tokens')
    assert rows[0] == ['type', 'precision', 'recall', 'F1', '95 % interval of F1', 'gold', 'predicted', 'correct']
    scores = json.loads((hmm / 'scores.json').read_text())['test']
    assert [row[0] for row in rows[1:]] == ['overall', 'PER']
    assert rows[1][1:4] == [f'{100 * scores[name]:.2f}' for name in ('precision', 'recall', 'f1')]
    assert 'it has no epochs' in page.section('curves')
    assert 'Log probabilities of the transitions' in page.section('transitions')
    words = next(one['text'] for one in page.all('desc') if one['attributes']['id'].startswith('picture-transitions'))
    best = tagger.decoder.chain().transitions
    row, column = np.unravel_index(best.argmax(), best.shape)
    assert f'{tagger.tags[row]} to {tagger.tags[column]} {best.max():.1f}' in words
    assert 'The temperature ' in page.section('calibration')
    assert 'ms-crf train --train' in page.section('settings') and '--model hmm' in page.section('settings')


@pytest.mark.slow
def test_report_a_run_whose_chain_has_other_tags_than_come_out(write, corpora, tmp_path):
    """The report shows the tags of the chain (BIOES) rather than the tags of the output (BIO).

    This is the default for files in BIO. The expected transition comes from the chain of the loaded tagger.
    """
    small = [*SMALL[:-4], *SMALL[-2:]]                           # without --scheme
    assert train.main([*files(corpora), *small, '--epochs', '1', '--save', str(tmp_path / 'run')]) == 0
    page, tagger = write(tmp_path / 'run'), Tagger.load(tmp_path / 'run')
    names = tagger.decoder.vocabulary.tags
    assert {'E-PER', 'S-PER'} < set(names) and 'E-PER' not in tagger.tags
    words = next(one['text'] for one in page.all('desc') if one['attributes']['id'].startswith('picture-transitions'))
    chain = tagger.decoder.chain()
    best = np.where(chain.allowed.transitions, chain.transitions, -np.inf)
    row, column = np.unravel_index(best.argmax(), best.shape)
    assert f'{names[row]} to {names[column]} {best.max():.1f}' in words


@pytest.fixture(scope='module')
def softmax(undisturbed, tmp_path_factory):
    """A copy of a run with a softmax head, which chooses each tag independently; it has no transition weights."""
    folder = tmp_path_factory.mktemp('softmax') / 'softmax'
    shutil.copytree(undisturbed[0], folder)
    weights = {name: array for name, array in records.read_tensors(folder / records.WEIGHTS).items()
               if 'transitions' not in name}
    write_tensors(folder / records.WEIGHTS, weights)
    config = SavedRun.open(folder).config
    config['options']['head'] = 'softmax'
    records.write_json(folder / records.CONFIG, config)
    return folder


@pytest.mark.slow
def test_report_networks_with_a_crf_and_without(write, undisturbed, softmax):
    page = write(undisturbed[0])
    tagger = Tagger.load(undisturbed[0])
    allowed = allowed_transitions('BIO', tagger.tags)
    forbidden = sum(int((~part).sum()) for part in allowed)
    titles = [one['text'] for one in page.all('title') if 'svg' in one['within']]
    assert titles == ['Learning curves', 'Transition scores', 'Reliability diagrams']
    words = {one['attributes']['id'].split('-')[1]: one['text'] for one in page.all('desc')}
    assert words['transitions'].startswith(f'{forbidden} of 15 transitions are forbidden.')
    metrics = SavedRun.open(undisturbed[0]).metrics
    assert f'loss: {metrics[0]["loss"]:.4g} in epoch 1, {metrics[-1]["loss"]:.4g} in epoch 3' in words['curves']
    assert f'learning rate: {metrics[0]["learning_rate"]:.4g} in epoch 1' in words['curves']
    best = max((record for record in metrics if record['best']), key=lambda record: record['epoch'])
    assert words['curves'].endswith(f'best epoch: {best["epoch"]}.')
    assert len(page.table('Epochs')) == 4

    page = write(softmax)
    assert 'it predicts each tag independently' in page.section('transitions')
    assert 'The temperature ' in page.section('calibration')

    page = write(undisturbed[0], softmax)
    assert page.all('h1')[0]['text'] == 'Comparison of 2 runs'
    assert page.table('Options that differ')[1:] == [['--head', 'crf', 'softmax']]


def test_report_runs_side_by_side(write, hmm, corpora, tmp_path):
    """A run next to its copy and to a run that knows half of the words; the differences must match the scores."""
    again, worse, half = tmp_path / 'again', tmp_path / 'worse', tmp_path / 'half.tsv'
    shutil.copytree(hmm, again)
    write_corpus(half, 2, 9)
    assert train.main(['--model', 'hmm', *files(corpora, train=half), '--save', str(worse)]) == 0
    page = write(hmm, again, worse, '--input', corpora / 'dev.tsv')
    rows = page.table('F1 of the first run minus')
    assert [row[:2] for row in rows[1:]] == [[str(hmm), str(again)], [str(hmm), str(worse)], [str(again), str(worse)]]
    assert rows[1][2:5] == ['+0.00', '+0.00 to +0.00', '1.0000']
    assert [sum(int(cell) for cell in row[5:]) for row in rows[1:]] == [6, 6, 6]
    scores = page.table('Exact entities')
    assert [row[0] for row in scores[1:]] == [str(hmm), str(again), str(worse)]
    assert float(rows[2][2]) == pytest.approx(float(scores[1][3]) - float(scores[3][3]), abs=0.011)
    assert page.table('Options that differ')[1:] == [['--train', str(corpora / 'train.tsv')] + [
        str(corpora / 'train.tsv'), str(half)]]
    assert 'No learning curves' in page.section('curves')


@pytest.mark.slow
def test_report_plain_tags(write, tmp_path):
    (tmp_path / 'train.tsv').write_text('a\tDET\nman\tNOUN\nruns\tVERB\n\nthe\tDET\nrun\tNOUN\n\n' * 5)
    (tmp_path / 'test.tsv').write_text('a\tDET\nruns\tNOUN\n\nruns\tADV\n\n')
    corpus = tmp_path / 'train.tsv'
    assert train.main(['--model', 'hmm', *files(tmp_path, dev=corpus), '--save', str(tmp_path / 'run')]) == 0
    page = write(tmp_path / 'run')
    assert [row[0] for row in page.table('Tags of tokens')] == ['tag', 'overall', 'ADV', 'DET', 'NOUN',
                                                                           'VERB']
    rows = page.table('Rows are gold')
    assert rows[0] == ['gold', 'ADV', 'DET', 'NOUN', 'VERB'] and rows[2] == ['DET', '0', '1', '0', '0']
    assert 'Boundaries' not in page.section('confusion') and 'entity' not in page.section('groups')


# Content of the page

@pytest.fixture
def strange(tmp_path):
    """A run and a file whose names and sentences contain markup, control characters and lone surrogates."""
    rows = [{'tokens': ['to', EVIL, '&amp;', 'Xan'], 'tags': ['O', 'B-<b>', 'O', 'B-$x_1$']},
            {'tokens': ['\u202eabc', 'a\0b', 'c', '人', '😀'], 'tags': ['B-$x_1$', 'O', 'B-人"', 'B-<b>', 'O']}]
    path = tmp_path / f'test&<i>{"x" * 3}.jsonl'
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    arguments = ['--model', 'hmm', '--train', str(path), '--dev', str(path), '--test', str(path)]
    assert train.main([*arguments, '--save', str(tmp_path / 'run"<u>')]) == 0
    rows[1]['tokens'][2] = '\ud800'
    wrong = tmp_path / 'wrong.jsonl'
    wrong.write_text(''.join(json.dumps({**row, 'tags': ['B-人"'] * len(row['tags'])}) + '\n' for row in rows))
    return tmp_path / 'run"<u>', wrong


@pytest.mark.slow
def test_report_everything_from_outside_is_text(write, strange):
    run, wrong = strange
    page = write(run, '--input', wrong)
    assert page.all('h1')[0]['text'] == f'Report of {run}'
    lines = [one['text'] for one in page.all('dd')]
    assert len(lines) == 4 and any(EVIL in line and '&amp;' in line for line in lines)
    assert any('人' in line and 'a\ufffdb' in line and '\ufffd' in line and '😀' in line for line in lines)
    assert html.escape(EVIL, quote=False)[:12] in page.text and '<script' not in page.text
    assert {row[0] for row in page.table('Exact entities: same tokens')} >= {'$x_1$', '<b>', '人"'}
    assert not page.all('b') and not page.all('i') and not page.all('u')
    written = [one['text'] for one in page.all('text') if 'svg' in one['within']]
    assert any('$x_1$' in text for text in written) and any('<b>' in text for text in written)


@pytest.mark.slow
def test_report_the_same_figures_make_the_same_page(write, hmm):
    def without_speed(page):
        return re.sub(r'Speed while this page was made: [\d,]+ sentences \([\d,]+ tokens\)', '', page.text)
    assert without_speed(write(hmm)) == without_speed(write(hmm))


@pytest.mark.slow
def test_report_errors_stand_gold_above_predicted(write, hmm, tmp_path):
    path = tmp_path / 'wrong.tsv'
    path.write_text('of\tO\nXan\tB-PER\nYel\tI-PER\n\nof\tB-ORG\nXan\tB-PER\nYan\tO\n\n')
    page = write(hmm, '--input', path)
    assert '1 of 2 sentences have an error' in page.section('errors')
    gold, predicted = page.all('dd')
    [tagged] = Tagger.load(hmm).tag([['of', 'Xan', 'Yan']])
    assert gold['text'] == 'of ORG (wrong) Xan PER (wrong) Yan'
    assert predicted['text'] == f'of Xan Yan PER {tagged.spans[0].confidence:.2f} (wrong)'
    assert 'Line 5, confidence' in page.section('errors')
    assert not write(hmm, '--input', path, '--errors', '0').all('dd')


@pytest.mark.slow
def test_report_files_of_the_training_that_are_gone(write, hmm, corpora, tmp_path):
    for part in ('train', 'dev'):
        (tmp_path / f'{part}.tsv').write_bytes((corpora / f'{part}.tsv').read_bytes())
    arguments = files(corpora, train=tmp_path / 'train.tsv', dev=tmp_path / 'dev.tsv')
    assert train.main(['--model', 'hmm', *arguments, '--save', str(tmp_path / 'other')]) == 0
    os.remove(tmp_path / 'train.tsv')
    (tmp_path / 'dev.tsv').write_text('tagless\n')
    page = write(tmp_path / 'other')
    assert f'The train file that config.json names, {tmp_path}/train.tsv, is missing.' in page.section('groups')
    assert (f'The dev file that config.json names, {tmp_path}/dev.tsv, has changed since the training.'
            in page.section('calibration'))
    assert 'no temperature was fitted' in page.section('calibration')


# Runs and arguments that are refused

def test_report_a_file_that_the_run_names_is_gone(refused, hmm, corpora, tmp_path):
    (tmp_path / 'test.tsv').write_bytes((corpora / 'test.tsv').read_bytes())
    arguments = files(corpora, test=tmp_path / 'test.tsv')
    assert train.main(['--model', 'hmm', *arguments, '--save', str(tmp_path / 'other')]) == 0
    os.remove(tmp_path / 'test.tsv')
    assert refused(tmp_path / 'other') == (f'{tmp_path}/test.tsv, the test file that {tmp_path}/other/config.json '
                                           'names, is missing; name another tagged file with --input')
    assert refused(hmm, '--input', 'absent.tsv').startswith('absent.tsv: ')


@pytest.mark.slow
@pytest.mark.parametrize('part', ['test', 'dev', 'train'])
def test_report_a_run_from_somebody_else_names_a_file_of_this_machine(hmm, tmp_path, capsys, part):
    """A report shows nothing of a file that a run names if its checksum is not the training's; a FIFO is not read."""
    secret, output = tmp_path / 'secret', tmp_path / 'report.html'
    secret.write_text('root:x:0:0:SECRET user:/root:/bin/sh\nSECRET')
    os.mkfifo(tmp_path / 'fifo')
    config = SavedRun.open(hmm).config
    digests = config['corpus_sha256']
    assert digests == {name: hashlib.sha256((tmp_path.parent / Path(config['options'][name])).read_bytes()).hexdigest()
                       for name in ('train', 'dev', 'test')}
    for path, others in ((secret, digests), (secret, {}), (secret, None), (secret, {part: 3}), (tmp_path / 'fifo', {})):
        config['options'][part], config['corpus_sha256'] = str(path), others
        records.write_json(hmm / 'config.json', config)
        capsys.readouterr()
        status = report.main([str(hmm), '--output', str(output)])
        printed = ''.join(capsys.readouterr()) + (output.read_text() if output.exists() else '')
        assert 'SECRET' not in printed
        if part == 'test':
            assert status == 2 and printed.count('\n') == 1 and 'name another tagged file with --input' in printed
            assert f'{path}, the test file that {hmm}/config.json names, ' in printed


@pytest.mark.parametrize('arguments,message', [
    (['absent'], 'absent/config.json: no such file; expected a run made by training'),
    (['RUN', 'RUN'], 'RUN names RUN twice, expected it once'),
    (['RUN', 'RUN/.'], 'RUN names RUN/. twice, expected it once'),
    (['RUN', ''], 'RUN must be a name, got nothing'),
    (['RUN', '--errors', '-1'], '--errors must be at least 0, got -1'),
    (['RUN', 'other', '--errors', '1'], '--errors has no effect with several runs; omit it'),
    (['RUN', '--resamples', '1'], '--resamples must be at least 100, got 1'),
    (['RUN', '--output', 'absent/report.html'], 'absent/report.html: '),
    ([f'run{number}' for number in range(13)], 'RUN must be at most 12 directories, got 13')])
def test_report_arguments_that_can_not_be(refused, hmm, arguments, message):
    given = [argument.replace('RUN', str(hmm)) for argument in arguments]
    assert refused(*given).startswith(message.replace('RUN names RUN', f'RUN names {hmm}'))


def test_report_columns_of_json_lines(refused, strange):
    run, _ = strange
    assert refused(run, '--columns', '0,1').startswith('--columns has no effect with JSON lines, the format of ')


@pytest.mark.slow
def test_report_a_file_without_entities(write, hmm, tmp_path):
    """Without gold and predicted entities the scores are 0, without interval and without a division by zero."""
    path = tmp_path / 'nothing.tsv'
    path.write_text('of\tO\nto\tO\n\nof\tO\n\n')
    assert not any(tagged.spans for tagged in Tagger.load(hmm).tag([['of', 'to'], ['of']]))
    again = tmp_path / 'again'
    shutil.copytree(hmm, again)
    page = write(hmm, '--input', path)
    assert page.table('Exact entities: same tokens')[1:] == [['overall', '0.00', '0.00', '0.00', 'none', '0', '0', '0']]
    assert 'accuracy of the tags is 100.00 % (100.00 to 100.00)' in page.section('scores')
    assert '0 of 2 sentences have an error' in page.section('errors')
    page = write(hmm, again, '--input', path)
    assert page.table('F1 of the first run minus')[1][2:5] == ['+0.00', '+0.00 to +0.00', '1.0000']
    assert evaluate.main(['--run', str(hmm), '--input', str(path)]) == 0


def test_report_runs_with_tags_of_two_kinds(refused, hmm, corpora, tmp_path):
    (tmp_path / 'plain.tsv').write_text('a\tDET\nman\tNOUN\n\n')
    arguments = [text for part in ('train', 'dev', 'test') for text in (f'--{part}', str(tmp_path / 'plain.tsv'))]
    assert train.main(['--model', 'hmm', *arguments, '--save', str(tmp_path / 'plain')]) == 0
    assert 'spans and plain tags cannot be compared' in refused(hmm, tmp_path / 'plain')


def test_report_a_run_that_is_damaged(refused, hmm):
    (hmm / 'metrics.jsonl').write_text('{"epoch": 1}\n')
    assert refused(hmm).startswith(f'{hmm}/metrics.jsonl')


def test_report_epochs_that_are_no_figures(refused, hmm):
    from ms_crf.runs.records import saving
    with saving(hmm) as new:
        new.text(records.METRICS, '{"epoch": 1, "loss": 2.5, "f1": 0.5, "accuracy": 0.7}\n{"epoch": 2, "loss": "x"}\n')
    assert refused(hmm) == (f'{hmm}/metrics.jsonl:2: expected "loss" to be a number, as training writes it, got '
                            "'x'")


def test_report_a_library_that_is_missing(refused, hmm, monkeypatch):
    monkeypatch.setitem(sys.modules, 'jinja2', None)
    assert refused(hmm) == ("a report needs jinja2, which is not installed: pip install 'ms_crf[report]', or pip "
                            'install -r requirements-report.txt')
    assert set(pictures.LIBRARIES) == {re.match(r'[\w-]+', line).group() for line in (
        ROOT / 'requirements-report.txt').read_text().splitlines() if not line.startswith('#')}


@pytest.mark.slow
def test_report_nothing_else_is_printed_where_there_is_no_home(hmm, tmp_path):
    """matplotlib would print notes about its font cache and invalid settings at import; the report suppresses them.

    The command runs in a separate process, where matplotlib is imported anew.
    """
    (tmp_path / 'matplotlibrc').write_text('lines.linewidth: 40\nno.such.setting: 1\n')
    (tmp_path / 'file').write_text('')
    environment = {**os.environ, 'HOME': str(tmp_path / 'file'), 'MPLCONFIGDIR': str(tmp_path / 'file'),
                   'MPLBACKEND': 'no such backend', 'MATPLOTLIBRC': str(tmp_path / 'matplotlibrc'),
                   'PYTHONPATH': str(ROOT)}
    result = subprocess.run([sys.executable, '-m', 'ms_crf', 'report', str(hmm)], cwd=tmp_path, env=environment,
                            capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (
        0, f'the report of {hmm} is in report.html\n', '')
    check(Page((tmp_path / 'report.html').read_text()))
