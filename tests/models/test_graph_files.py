"""The files of an exported graph: replacing them, failing exports, and edited or damaged files."""

import hashlib
import json
import os
import resource
import stat
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.cli import export
from ms_crf.models import mindir
from ms_crf.models.graph_record import check_target, read_record, record_of, replace_pair

import pytest

from support.paths import ROOT


@pytest.fixture(scope='module')
def run(run_of):
    """A run with a softmax, whose graph is exported in two seconds."""
    return run_of(head='softmax')


@pytest.fixture(scope='module')
def contents(run, exported):
    """The contents of a graph and of its record."""
    path = exported(run)
    return path.read_bytes(), json.loads(record_of(path).read_text())


@pytest.fixture
def pair(contents, tmp_path):
    """A function that writes the graph with a changed record, and returns the path of the graph."""
    def write(checked=False, graph=contents[0], **changes):
        record = {**contents[1], **changes}
        record = {key: value for key, value in record.items() if value is not KeyError}
        if not checked:                          # earlier versions wrote no checksum of the record
            del record['record_sha256']
        (tmp_path / 'a.mindir').write_bytes(graph)
        (tmp_path / 'a.json').write_text(json.dumps(record))
        return tmp_path / 'a.mindir'
    return write


def refused(path):
    with pytest.raises(CorpusError) as raised:
        Tagger.load(path)
    text = str(raised.value)
    assert len(text.splitlines()) == 1 and text.startswith(str(path.parent)) and len(text) < 500
    return text.removeprefix(f'{path.parent}/')


GREAT = 10 ** 9


@pytest.mark.parametrize('key,value,message', [
    ('static', KeyError, 'expected "static" to be there, got none'),
    ('static', [True, 4], 'expected "static" to be batch and length or null, got [True, 4]'),
    ('static', [1.0, 4], 'got [1.0, 4]'), ('static', 'x', "got 'x'"),
    ('static', [0, 5], 'got [0, 5]'), ('static', [-1, 5], 'got [-1, 5]'), ('static', {}, 'got {}'),
    ('static', [GREAT, GREAT], 'a batch of "static" [1000000000, 1000000000] needs at least'),
    ('static', [2, 5], 'expected "inputs" to be words, spellings, places, lengths, and words to be int32 of shape [10]'
     ", got {'name': 'words', 'type': 'int32', 'shape': [None]}"),
    ('tags', [], 'expected "tags" to be a list of at least one, got none'),
    ('tags', ['O', 5], 'expected "tags" to be a list of strings'),
    ('tags', KeyError, 'expected "tags" to be a list of strings, got none'),
    ('tags', {}, 'expected "tags" to be a list'),
    ('tags', ['O', 'B-X', 'I-X', 'B-Y', ''], 'expected "tags" to be strings that are not empty'),
    ('tags', ['O', 'B-X', 'I-X', 'B-Y', 'B-\ud800'], 'expected "tags" to be Unicode, got half of a pair'),
    ('tags', ['O', 'B-X', 'I-X', 'B-Y', 'B-Y'], 'expected "tags" to be distinct'),
    ('tags', ['O', 'B-X', 'I-X', 'B-Y', 'E-Y'], 'expected "tags" that fit "scheme": tags must be'),
    ('tags', ['O', 'B-X', 'I-X', 'B-Y'], 'expected 5 tags, as in the graph, got 4'),
    ('words', ['to'], 'expected 10 ids of words, as in the graph, got 3'),
    ('words', 'to', 'expected "words" to be a list'),
    ('words', ['to', 'to'], 'expected "words" to be distinct'), ('words', KeyError, '"words" to be a list'),
    ('characters', ['a'], 'expected 16 ids of characters, as in the graph, got 3'),
    ('characters', ['ab'], 'expected "characters" to be single characters, got \'ab\''),
    ('char_length', GREAT, 'expected "char_length" to be at most 1000, got 1000000000'),
    ('char_length', 10 ** 30, 'expected "char_length" to be at most 1000'),
    ('char_length', True, 'expected "char_length" to be a whole number, got True'),
    ('char_length', 0, 'got 0'), ('char_length', 4.0, 'got 4.0'), ('char_length', None, 'got None'),
    ('first_id', 7, 'expected "first_id" to be 2, got 7'),
    ('output', 'emissions', 'expected "outputs" to be score, history'), ('output', [], '"output" to be one of'),
    ('scheme', {}, '"scheme" to be one of'), ('scheme', 'BMES', 'fit "scheme"'),
    ('found_scheme', None, '"found_scheme" to be one of'), ('inputs', KeyError, 'expected "inputs" to be a list'),
    ('inputs', [[]] * 4, 'expected "inputs" to be'), ('inputs', [{'name': []}], 'expected "inputs" to be'),
    ('outputs', None, 'expected "outputs" to be a list, got None'), ('format', '1', '"format" to be 1'),
    ('format', True, '"format" to be 1, got True; it was written by another'),
    ('format', GREAT, '"format" to be 1'), ('sha256', None, 'got another or a damaged graph'),
    ('sha256', [], 'got another or a damaged graph'), ('next', 5, 'an edited or damaged record'),
    ('next', {'record_sha256': ''}, 'an edited or damaged record')])
def test_graph_files_records_that_can_not_be(pair, key, value, message):
    found = refused(pair(**{key: value}))
    assert message in found


@pytest.mark.parametrize('changes', [
    {'tags': ['O', 'B-Y', 'I-Y', 'B-X', 'I-X']}, {'words': 'in to at on by Xan Yel abracadabra'.split()},
    {'scheme': 'plain'}, {'static': KeyError}, {'found_scheme': 'IOB1'}, {'another': 1}, {'record_sha256': None}])
def test_graph_files_an_edited_record_is_found(pair, changes):
    assert refused(pair(checked=True, **changes)) == (
        'a.json: expected the record as ms_crf.export wrote it, got an edited or damaged record; copy it again, or '
        'export again')


@pytest.mark.slow
def test_graph_files_records_of_earlier_versions_and_in_another_layout_are_read(pair):
    expected = Tagger.load(pair(checked=True)).tag([['to', 'Xan']])[0]
    assert Tagger.load(pair()).tag([['to', 'Xan']])[0] == expected
    path = pair(checked=True)
    record = json.loads(record_of(path).read_text())
    record_of(path).write_text(json.dumps(dict(reversed(record.items())), indent=4))
    assert read_record(path)[0] == record


@pytest.mark.parametrize('text,message', [
    ('[' * 100000, 'expected JSON as ms_crf.export writes it: it is nested too deeply'),
    ('{"format": ' + '9' * 5000 + '}', 'expected JSON as ms_crf.export writes it: Exceeds the limit'),
    ('', 'expected JSON'), ('[]', 'expected the record as ms_crf'), ('{}', 'expected "format" to be 1'),
    ('\udcff', 'expected JSON'),
    ('{"a": ' * 900 + '1' + '}' * 900, 'expected JSON as ms_crf.export writes it: it is nested too deeply'),
    ('\ufeff{}', 'expected JSON')])
def test_graph_files_records_that_are_no_json(pair, text, message):
    path = pair()
    record_of(path).write_text(text, errors='surrogateescape')
    assert refused(path).startswith(f'a.json: {message}')


def test_graph_files_what_is_not_there_or_no_file(pair, tmp_path):
    path = pair()
    record_of(path).unlink()
    assert refused(path) == ('a.json: no such file; expected the record of a.mindir; copy both files, or export '
                             'again')
    os.mkfifo(record_of(path))
    assert refused(path) == 'a.json: expected JSON written by ms_crf.export, got a device or pipe'
    record_of(path).unlink()
    record_of(path).mkdir()
    assert 'a folder' in refused(path)
    record_of(path).rmdir()
    pair().unlink()
    path.mkdir()
    assert refused(path) == 'a.mindir: expected a graph written by ms_crf.export, got a folder'
    path.rmdir()
    os.mkfifo(path)
    assert refused(path) == 'a.mindir: expected a graph written by ms_crf.export, got a device or pipe'


class Stopped(BaseException):
    pass


@pytest.mark.parametrize('moment', range(6))
def test_graph_files_a_crash_between_both_files_leaves_a_pair(contents, tmp_path, monkeypatch, moment):
    """After a crash before or after each `os.replace`, the record that is read belongs to the graph in the file.

    The two records have their tags in different orders, which shows which record is read.
    """
    path, draft = tmp_path / 'a.mindir', tmp_path / 'draft'
    new = {**contents[1], 'tags': ['O', 'B-Y', 'I-Y', 'B-X', 'I-X']}
    for record, graph in ((contents[1], b'one'), (new, b'two')):
        draft.write_bytes(graph)
        record = {key: value for key, value in record.items() if 'sha256' not in key}
        calls, rename = [], os.replace

        def replace(source, target):
            if len(calls) * 2 == moment:         # noqa: B023
                raise Stopped
            rename(source, target)               # noqa: B023
            calls.append(target)                 # noqa: B023
            if len(calls) * 2 - 1 == moment:     # noqa: B023
                raise Stopped

        if graph == b'two':
            monkeypatch.setattr(os, 'replace', replace)
            with pytest.raises(Stopped):
                replace_pair(path, draft, record)
            monkeypatch.undo()
        else:
            replace_pair(path, draft, record)
    found = read_record(path)[0]
    assert found['tags'] == {b'one': contents[1], b'two': new}[path.read_bytes()]['tags']
    draft.write_bytes(b'three')
    replace_pair(path, draft, record)            # the files that the crash left are replaced
    assert read_record(path)[0]['sha256'] == hashlib.sha256(b'three').hexdigest()
    assert sorted(os.listdir(tmp_path)) == ['a.json', 'a.mindir'] and 'next' not in read_record(path)[0]


@pytest.mark.slow
def test_graph_files_a_graph_may_have_the_name_of_its_draft(run, tmp_path):
    """A graph can be named graph.mindir, which is also the name of the temporary file that MindSpore writes."""
    mindir.export(run, tmp_path / 'graph.mindir')
    assert Tagger.load(tmp_path / 'graph.mindir').tag([['a']])[0].tokens == ['a']
    assert sorted(file.name for file in tmp_path.iterdir()) == ['graph.json', 'graph.mindir']


def test_graph_files_nothing_else_is_overwritten(run, tmp_path, capsys):
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    for name in ('config', 'vocab', 'scores'):
        assert export.main(['--run', str(run), '--output', str(run / f'{name}.mindir')]) == 2
        assert capsys.readouterr().err.startswith(f'ms_crf.export: {run / name}.json: expected ')
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
    for text in ('{"mine": 1}', 'text', '[]', ''):
        (tmp_path / 'a.json').write_text(text)
        assert export.main(['--run', str(run), '--output', str(tmp_path / 'a.mindir')]) == 2
        assert capsys.readouterr().err == (
            f'ms_crf.export: {tmp_path}/a.json: expected nothing, or the record of an earlier export, got another '
            'file, which would be overwritten; choose another name\n')
        assert (tmp_path / 'a.json').read_text() == text and not (tmp_path / 'a.mindir').exists()


@pytest.mark.parametrize('ending', ['mindir', 'json'])
@pytest.mark.parametrize('kind,message', [
    ('fifo', 'expected a regular file, since graph and record are replaced together'), ('folder', 'got a folder'),
    ('device', 'expected a regular file, since graph and record are replaced together')])
def test_graph_files_names_that_are_no_files(tmp_path, ending, kind, message):
    path = tmp_path / f'a.{ending}'
    {'fifo': os.mkfifo, 'folder': os.mkdir, 'device': lambda path: os.symlink('/dev/null', path)}[kind](path)
    with pytest.raises(CorpusError, match=message):
        check_target(tmp_path / 'a.mindir')
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.slow
def test_graph_files_links_and_modes_are_kept(run, pair, tmp_path):
    path = pair(checked=True)
    for file in (path, record_of(path)):
        file.chmod(0o600)
        (tmp_path / f'link{file.suffix}').symlink_to(file.name)
    mindir.export(run, tmp_path / 'link.mindir', 'confidences')
    assert Tagger.load(path).gives_confidences and (tmp_path / 'link.mindir').is_symlink()
    assert [stat.S_IMODE(file.stat().st_mode) for file in (path, record_of(path))] == [0o600] * 2


@pytest.mark.parametrize('static', [(GREAT, GREAT), (10 ** 15, 1)])
def test_graph_files_a_batch_without_a_place_in_memory(run, static, tmp_path):
    with pytest.raises(OptionError, match=f'{static[0]} x {static[1]} tokens needs at least .* GB of memory'):
        mindir.export(run, tmp_path / 'a.mindir', static=list(static))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_graph_files_a_full_disk(run, pair, tmp_path, capfd):
    """If the graph cannot be written, the previous files stay unchanged.

    A limit of 20,000 bytes for each file stands for a full disk; the graph is larger.
    """
    path = pair(checked=True)
    before = path.read_bytes(), record_of(path).read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, limits[1]))
    try:
        assert export.main(['--run', str(run), '--output', str(path)]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capfd.readouterr().err == (
        f'ms_crf.export: {path}: cannot be written: File too large; the previous file is unchanged\n')
    assert (path.read_bytes(), record_of(path).read_bytes()) == before
    assert sorted(os.listdir(tmp_path)) == ['a.json', 'a.mindir']


@pytest.mark.slow
def test_graph_files_interrupted_while_the_graph_is_compiled(run, tmp_path):
    """An export that Ctrl-C stops exits with status 130 and leaves no files in the working directory.

    The signal arrives while MindSpore parses the first function.
    """
    hook = ('import os, signal, sys\n'
            'def profile(frame, event, argument):\n'
            '    if event == "call" and frame.f_code.co_filename.endswith("parse/parser.py"):\n'
            '        sys.setprofile(None)\n'
            '        os.kill(os.getpid(), signal.SIGINT)\n'
            'sys.setprofile(profile)\n')
    for folder in ('hook', 'work'):
        (tmp_path / folder).mkdir()
    (tmp_path / 'hook' / 'sitecustomize.py').write_text(hook)
    result = subprocess.run([sys.executable, '-m', 'ms_crf.export', '--run', str(run), '--output', 'a.mindir'],
                            cwd=tmp_path / 'work', capture_output=True, text=True, timeout=120,
                            env={**os.environ, 'PYTHONPATH': f'{tmp_path}/hook{os.pathsep}{ROOT}'})
    assert (result.returncode, result.stdout, result.stderr) == (130, '', 'ms_crf.export: stopped\n')
    assert not os.listdir(tmp_path / 'work')
