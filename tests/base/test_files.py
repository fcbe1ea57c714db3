"""Atomic file writing: modes, links, FIFOs, devices, interrupted processes; and strict reading of JSON."""

import gzip
import json
import os
import stat
import subprocess
import sys

from ms_crf.base.errors import CorpusError
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.base.files import check_writable, temporary, text_writer, whole, write_text

import pytest

from support.properties import given, settings
from support.properties import strategies as st


def names(folder):
    return sorted(os.listdir(folder))


def test_files_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path):
    file, link = tmp_path / 'secret.txt', tmp_path / 'link.txt'
    file.write_text('before')
    file.chmod(0o600)
    link.symlink_to('secret.txt')
    write_text(link, 'after')
    assert file.read_text() == 'after' and link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and names(tmp_path) == ['link.txt', 'secret.txt']


def test_files_a_new_file_has_the_mode_that_open_would_give_it(tmp_path):
    open(tmp_path / 'plain', 'w').close()
    write_text(tmp_path / 'new', 'text')
    assert (tmp_path / 'new').stat().st_mode == (tmp_path / 'plain').stat().st_mode


def test_files_nothing_changes_before_all_is_written(tmp_path):
    file = tmp_path / 'a.txt'
    file.write_text('before')
    with pytest.raises(KeyError), text_writer(file) as write:
        write('half')
        raise KeyError
    assert file.read_text() == 'before' and names(tmp_path) == ['a.txt']


def test_files_a_name_that_ends_in_gz_is_compressed(tmp_path):
    write_text(tmp_path / 'a.txt.gz', 'zeile\n')
    with gzip.open(tmp_path / 'a.txt.gz', 'rt') as file:
        assert file.read() == 'zeile\n'
    assert gzip.decompress((tmp_path / 'a.txt.gz').read_bytes()) == b'zeile\n'
    # gzip stores a file name in its header; the draft's name, which contains the process id, must not be there.
    assert str(os.getpid()).encode() not in (tmp_path / 'a.txt.gz').read_bytes()


def test_files_a_fifo_and_a_device_are_written_through(tmp_path):
    fifo = tmp_path / 'fifo'
    os.mkfifo(fifo)
    reader = subprocess.Popen(['cat', str(fifo)], stdout=subprocess.PIPE)
    write_text(fifo, 'through\n')
    assert reader.communicate(timeout=30)[0] == b'through\n' and stat.S_ISFIFO(fifo.stat().st_mode)
    link = tmp_path / 'null'
    link.symlink_to('/dev/null')                                 # without the link, a bug could replace the device
    write_text(link, 'gone')
    assert stat.S_ISCHR(os.stat('/dev/null').st_mode) and link.is_symlink()
    reading, writing = os.pipe()
    write_text(f'/dev/fd/{writing}', 'piped')
    assert os.read(reading, 100) == b'piped'
    with pytest.raises(CorpusError, match='/dev/full: cannot be written: No space left on device'):
        write_text('/dev/full', 'too much')


def test_files_a_redirected_stream_keeps_what_was_written_before(tmp_path):
    """Nothing is truncated with `{ echo before; program --output /dev/stdout; echo after; } > a.txt`."""
    with open(tmp_path / 'a.txt', 'wb', buffering=0) as file:
        file.write(b'before\n')
        write_text(f'/dev/fd/{file.fileno()}', 'during\n')
        file.write(b'after\n')
    assert (tmp_path / 'a.txt').read_text() == 'before\nduring\nafter\n' and names(tmp_path) == ['a.txt']


@pytest.mark.parametrize('name,expected', [
    ('none/a.txt', 'there is no folder'), ('.', 'got a folder'), ('a' * 300, 'File name too long'),
])
def test_files_what_can_not_be_written(tmp_path, name, expected):
    path = str(tmp_path / name)
    with pytest.raises(CorpusError, match=expected):
        write_text(path, 'text')
    assert names(tmp_path) == []


def test_files_the_longest_name_that_the_file_system_takes(tmp_path):
    write_text(tmp_path / ('a' * 255), 'text')
    assert names(tmp_path) == ['a' * 255]


def test_files_looking_whether_a_file_can_be_written_makes_none(tmp_path):
    check_writable(tmp_path / 'a.txt')
    assert names(tmp_path) == []


def test_files_what_an_interrupted_process_leaves(tmp_path):
    """After each signal the command prints one line, its drafts are gone, and the old file is unchanged."""
    program = ('import sys; from ms_crf.base import files; from ms_crf.cli import console; console.begin("some.py")\n'
               'import os; top = sys.argv[1]\n'
               'with files.temporary(top + "/folder") as folder, files.text_writer(top + "/a") as write:\n'
               '    os.mkdir(folder); write("half"); print("now", flush=True); sys.stdin.read()')
    (tmp_path / 'a').write_text('before')
    for number in (2, 15, 1):
        process = subprocess.Popen([sys.executable, '-c', program, str(tmp_path)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        assert process.stdout.readline() == 'now\n'
        process.send_signal(number)
        assert process.communicate(timeout=30)[1] == 'some.py: stopped\n' and process.returncode == 130
        assert names(tmp_path) == ['a'] and (tmp_path / 'a').read_text() == 'before'


def test_files_temporary_files_go_at_the_end_of_their_block(tmp_path):
    with temporary(tmp_path / 'a') as path, whole(tmp_path / 'b') as draft:
        for name in (path, draft):
            with open(name, 'w') as file:
                file.write('text')
    assert names(tmp_path) == ['b']


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4), max_leaves=12)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(value=VALUES)
def test_files_json_comes_back(value):
    text = json.dumps(value)
    assert json_of(text, None) == json_of(text.encode(), None) == value


@pytest.mark.parametrize('text,message,line', [
    ('{"a": 1,\n "b" 2}', "Expecting ':' delimiter at column 6", 2), ('', 'Expecting value at column 1', 1),
    (b'"\xff"', 'expected UTF-8, got byte 0xff', None), ('[1, -1e999]', '-1e999 is too large for a number', None),
    ('[NaN]', 'NaN is not a finite number', None), ('1' * 5000, 'Exceeds the limit', None),
    ('{"a": {"b": 1, "c": 2, "b": 1}}', "'b' appears twice, expected it once", None),
    ('[' * 100_000, 'it is nested too deeply', None), ('[' * 22 + ']' * 22, 'it is nested too deeply', None)])
def test_files_json_that_is_not_read_and_why(text, message, line):
    with pytest.raises(JSONFault) as raised:
        json_of(text)
    assert str(raised.value).startswith(message) and raised.value.line == line


def test_files_json_of_any_depth_is_read_where_it_is_a_users():
    text = '[' * 200 + ']' * 200
    assert json.dumps(json_of(text, None)) == text and json_of('[' * 20 + ']' * 20)
