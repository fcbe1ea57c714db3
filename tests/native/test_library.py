"""Where the library of C++ operators is found or compiled, and when it is missing. Each case has its own process."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from ms_crf.native import library

import pytest

from support.paths import ROOT
from support.trainings import files

pytestmark = pytest.mark.skipif(library.find().path is None, reason=library.find().reason)
SECONDS = 300                  # time limit of a process
FIND = 'from ms_crf.native import library; found = library.find(); print(found.path); print(found.reason)'


def start(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if name not in ('XDG_CACHE_HOME', library.SWITCH)}
    environment.update(variables)
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=environment)


def find(**variables):
    """(path, reason) of `library.find()` in a new process with these environment variables."""
    output, errors = start('-c', FIND, **variables).communicate(timeout=SECONDS)
    assert errors == ''
    path, reason = output.splitlines()
    return None if path == 'None' else Path(path), reason


@pytest.fixture
def nobody(tmp_path):
    """Environment variables of a user without a C++ compiler."""
    folder = tmp_path / 'bin'
    folder.mkdir()
    return {'PATH': str(folder), 'XDG_CACHE_HOME': str(tmp_path / 'cache')}


def test_library_compiled_once_into_a_folder_of_the_users_own(quick, tmp_path, nobody):
    """Two processes at the same time compile the library only once, into a private folder.

    Afterwards the library is found without a compiler.
    """
    both = [start('-c', FIND, **quick) for _ in range(2)]
    paths = {process.communicate(timeout=SECONDS)[0].splitlines()[0] for process in both}
    assert len(paths) == 1 and [process.returncode for process in both] == [0, 0] and calls(tmp_path) == 1
    shutil.rmtree(tmp_path / 'bin')
    path = Path(paths.pop())
    assert path.parent == tmp_path / 'cache' / 'ms_crf' and path.parent.stat().st_mode & 0o777 == 0o700
    assert {name.name for name in path.parent.iterdir()} == {path.name, f'{path.name}.sha256'}
    assert find(**nobody)[0] == path


def test_library_what_others_may_write_to_is_not_loaded(tmp_path, nobody):
    folder = tmp_path / 'cache' / 'ms_crf'
    folder.mkdir(parents=True)
    path = folder / library.name_of(library.level())
    path.write_bytes(b'')
    path.chmod(0o777)
    folder.chmod(0o700)
    assert find(**nobody) == (None, f'{path} must belong to you, and other users must not have write access')
    folder.chmod(0o777)
    assert find(**nobody) == (None, f'{folder} must belong to you, and other users must not have write access')
    folder.rename(tmp_path / 'elsewhere')
    folder.symlink_to(tmp_path / 'elsewhere')
    assert find(**nobody) == (None, f'{folder} must belong to you, and other users must not have write access')


@pytest.fixture
def quick(tmp_path, nobody):
    """Environment variables of a user with a compiler that only copies a library, and leaves a file for each call."""
    compiler = tmp_path / 'bin' / 'c++'
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n'
                        f'PATH={os.environ["PATH"]}\nmktemp {tmp_path}/call-XXXXXX && '
                        f'exec cp {library.find().path} "$2"\n')
    compiler.chmod(0o755)
    return {**nobody, 'PATH': str(tmp_path / 'bin')}


def calls(tmp_path):
    """Number of calls of the compiler of `quick`."""
    return len(list(tmp_path.glob('call-*')))


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = {
    'a byte of the library': lambda path, checksum: flip(path),
    'a library cut off': lambda path, checksum: os.truncate(path, path.stat().st_size // 2),
    'an empty library': lambda path, checksum: os.truncate(path, 0),
    'no library': lambda path, checksum: path.unlink(),
    'another library': lambda path, checksum: path.write_bytes(b'something else' * 1000),
    'a byte of the checksum': lambda path, checksum: flip(checksum),
    'an empty checksum': lambda path, checksum: os.truncate(checksum, 0),
    'no checksum': lambda path, checksum: checksum.unlink(),
    'bytes that are no text': lambda path, checksum: checksum.write_bytes(b'\xff\0' * 40)}


@pytest.mark.slow
@pytest.mark.parametrize('damage', DAMAGES.values(), ids=DAMAGES)
def test_library_a_damaged_library_is_compiled_again(quick, tmp_path, damage):
    path, reason = find(**quick)
    checksum = path.with_name(f'{path.name}.sha256')
    assert find(**quick) == (path, reason) and calls(tmp_path) == 1
    damage(path, checksum)
    output, errors = start('-c', 'from ms_crf.native import library; print(library.is_ready(), library.describe())',
                           **quick).communicate(timeout=SECONDS)
    assert (output, errors) == ('False operators in C++, compiled on first use\n', '')
    assert find(**quick) == (path, reason) and calls(tmp_path) == 2
    assert path.read_bytes() == Path(library.find().path).read_bytes() and library.works(path)
    assert find(**quick) == (path, reason) and calls(tmp_path) == 2
    subprocess.run(['sha256sum', '--check', '--quiet', checksum], cwd=path.parent, timeout=SECONDS, check=True)


def test_library_a_damaged_library_without_a_compiler(quick, nobody, tmp_path):
    path, _ = find(**quick)
    flip(path)
    shutil.rmtree(tmp_path / 'bin')
    path, reason = find(**nobody)
    assert (path, reason) == (None, 'found no working C++ compiler; install g++, or run: pip install ziglang')


#: Program that prints each sync and rename. It ends at the rename whose number is its argument; 0 for never.
WATCHED = """
import os, sys
from ms_crf.native import library

def kind(path):
    name = os.path.basename(path)
    return 'folder' if os.path.isdir(path) else 'checksum' if '.sha256' in name else 'library'

def sync(descriptor):
    print('sync', kind(os.readlink(f'/proc/self/fd/{descriptor}')))

def replace(draft, path):
    renamed.append(path)
    if len(renamed) == int(sys.argv[1]):
        os._exit(1)
    print('rename', kind(path))
    rename(draft, path)

renamed, rename = [], os.replace
os.fsync, os.replace = sync, replace
library.find()
"""


def test_library_what_reaches_the_disk_in_which_order(quick):
    output, errors = start('-c', WATCHED, '0', **quick).communicate(timeout=SECONDS)
    assert errors == '' and output.splitlines() == [
        'sync library', 'rename library', 'sync folder', 'sync checksum', 'rename checksum', 'sync folder']


@pytest.mark.slow
@pytest.mark.parametrize('number', [1, 2])
def test_library_a_crash_leads_to_another_compilation(quick, tmp_path, number):
    """After a crash between two renames the library is compiled again, also when it replaces a damaged library."""
    for expected in (2, 4):
        crashed = start('-c', WATCHED, str(number), **quick)
        crashed.communicate(timeout=SECONDS)
        assert crashed.returncode == 1 and calls(tmp_path) == expected - 1
        path, _ = find(**quick)
        assert library.works(path) and calls(tmp_path) == expected
        flip(path)
        flip(path.with_name(f'{path.name}.sha256'))


@pytest.mark.slow
@pytest.mark.parametrize('mode,safe', [(0o755, True), (0o1777, True), (0o775, False), (0o757, False), (0o777, False)])
@pytest.mark.parametrize('linked', [False, True], ids=['folder', 'behind a link'])
def test_library_folders_above_the_cache_that_others_may_write_to(quick, tmp_path, mode, safe, linked):
    """A cache is refused if other users can write to a folder above it, because they could replace the cache.

    The sticky bit prevents this, so such folders are accepted.
    """
    above = tmp_path / 'above'
    (above / 'mine').mkdir(parents=True)
    above.chmod(mode)
    if linked:
        (tmp_path / 'link').symlink_to('above/mine')
    quick['XDG_CACHE_HOME'] = str(tmp_path / 'link' if linked else above / 'mine')
    path, reason = find(**quick)
    if safe:
        assert path.parent == Path(quick['XDG_CACHE_HOME'], 'ms_crf')
        assert stat.S_IMODE(above.stat().st_mode) == mode
        return
    assert (path, reason) == (None, f'other users could replace {quick["XDG_CACHE_HOME"]}/ms_crf, because they can '
                                    f'write to {above}; run: chmod go-w {above}')
    output, _ = start('-c', 'from ms_crf.native import library; print(library.describe())',
                      **quick).communicate(timeout=SECONDS)
    assert output == f'plain operators of MindSpore: {reason}\n'


@pytest.mark.skipif(not hasattr(os, 'getuid') or os.getuid() != 0, reason='only root can give folders to other users')
@pytest.mark.parametrize('linked', [False, True], ids=['folder', 'link'])
def test_library_folders_above_the_cache_that_belong_to_others(quick, tmp_path, linked):
    above = tmp_path / 'above'
    if linked:
        (tmp_path / 'mine').mkdir()
        above.symlink_to('mine')
    else:
        above.mkdir()
    os.lchown(above, 4711, 4711)
    assert find(**{**quick, 'XDG_CACHE_HOME': str(above)}) == (
        None, f'other users could replace {above}/ms_crf, because {above} belongs to another user')


def test_library_links_that_lead_nowhere(quick, tmp_path):
    (tmp_path / 'one').symlink_to('two')
    (tmp_path / 'two').symlink_to('one')
    path, reason = find(**{**quick, 'XDG_CACHE_HOME': str(tmp_path / 'one')})
    assert (path, reason) == (None, f'cannot create {tmp_path}/one/ms_crf: Too many levels of symbolic links')
    (tmp_path / 'file').write_text('')
    path, reason = find(**{**quick, 'XDG_CACHE_HOME': str(tmp_path / 'file')})
    assert (path, reason) == (None, f'cannot create {tmp_path}/file/ms_crf: Not a directory')


def test_library_folders_that_are_missing_are_made_for_the_user_alone(quick, tmp_path):
    """Missing folders of the cache are created with mode 0700, whatever the umask is."""
    quick['XDG_CACHE_HOME'] = str(tmp_path / 'one' / '..' / 'one' / 'two')
    output, _ = start('-c', f'import os; os.umask(0o002); {FIND}', **quick).communicate(timeout=SECONDS)
    assert 'compiled here' in output
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / 'one', tmp_path / 'one' / 'two')} == {0o700}


@pytest.mark.parametrize('variables,reason', [
    ({library.SWITCH: '0'}, 'MS_CRF_NATIVE is 0'),
    ({library.SWITCH: 'yes'}, 'MS_CRF_NATIVE must be 0 or 1, got yes'),
    ({'XDG_CACHE_HOME': 'here'}, 'here/ms_crf is not an absolute path')])
def test_library_why_there_is_none(variables, reason):
    assert find(**variables) == (None, reason)


@pytest.mark.slow
def test_library_without_a_compiler(nobody, corpora, tmp_path):
    """Without a compiler train.py prints one line about the slower plain operators, and trains.

    An HMM does not use the operators, so its training prints no such line.
    """
    nobody['PYTHONPATH'] = str(tmp_path)
    (tmp_path / 'ziglang.py').write_text('raise SystemExit(1)')  # hides an installed ziglang
    reason = 'found no working C++ compiler'
    assert find(**nobody) == (None, f'{reason}; install g++, or run: pip install ziglang')
    output, errors = start('train.py', '--model', 'hmm', *files(corpora), '--save', str(tmp_path / 'hmm'),
                           **nobody).communicate(timeout=SECONDS)
    assert errors == '' and 'saved in' in output                 # an HMM needs no operators
    output, errors = start('train.py', *files(corpora), '--epochs', '1', '--word-dim', '6', '--hidden', '6', '--char',
                           'none', '--save', str(tmp_path / 'run'), '--device', 'CPU',
                           **nobody).communicate(timeout=SECONDS)
    assert 'saved in' in output
    lines = [line for line in errors.splitlines() if not re.fullmatch('train.py: compiling .*', line)]
    assert lines == [f'train.py: using plain MindSpore operators, which are slower than C++ operators: {reason}; '
                     'install g++, or run: pip install ziglang']


@pytest.mark.slow
def test_library_a_compiler_that_does_not_know_the_processor(nobody, tmp_path):
    """If the compiler does not know -march, the library is compiled for all processors of the family.

    The compiler of this test uses -O0, because optimization takes most of the time.
    """
    compiler = tmp_path / 'bin' / 'c++'
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-march*) exit 1 ;; esac\nPATH={os.environ["PATH"]}\n'
                        f'exec {" ".join(next(library.compilers()))} "$@" -O0\n')
    compiler.chmod(0o755)
    path, reason = find(**nobody)
    assert reason == f'compiled here, in {path.parent}' and library.works(path)


def test_library_processors_of_three_kinds(tmp_path):
    flags = 'fpu sse2 avx avx2 bmi1 bmi2 f16c fma abm movbe'
    for text, expected in ((f'{flags} avx512f avx512bw avx512cd avx512dq avx512vl', 'x86-64-v4'),
                           (f'{flags} avx512f', 'x86-64-v3'), (flags.replace(' fma', ''), 'x86-64')):
        file = tmp_path / 'cpuinfo'
        file.write_text(f'processor\t: 0\nflags\t\t: {text}\n')
        assert library.level(str(file)) in (expected, None)      # None on other architectures
    assert library.name_of('x86-64') != library.name_of('x86-64-v3')
