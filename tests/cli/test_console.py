"""Tests how commands end, as child processes: with signals at any moment, and with closed or full output streams."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from support.paths import ROOT
from support.trainings import SMALL, files

COMMANDS = (['train.py'], ['infer.py'], ['-m', 'ms_crf.export'], ['-m', 'ms_crf.compare'],
            *(['-m', 'ms_crf', verb] for verb in ('evaluate', 'report', 'convert', 'serve', 'suggest')))


def start(arguments, **options):
    return subprocess.Popen([sys.executable, *arguments], text=True,
                            **{'cwd': ROOT, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, **options})


def closed(*numbers):
    """Returns a function for `preexec_fn` that closes standard streams, like `>&-` in a shell."""
    def close():
        for number in numbers:
            os.close(number)
    return close


@pytest.mark.slow
def test_console_interrupted_while_libraries_are_imported(corpora, tmp_path):
    """Checks that SIGINT during an import gives one line and status 130, and creates no run directory.

    An import hook sends the signal at the moment Python searches for NumPy or MindSpore.
    """
    hook = ('import os, signal, sys\n'
            'class Finder:\n'
            '    def find_spec(self, name, path=None, target=None):\n'
            '        if name in (os.environ["AT"],):\n'
            '            os.kill(os.getpid(), signal.SIGINT)\n'
            'sys.meta_path.insert(0, Finder())\n')
    (tmp_path / 'sitecustomize.py').write_text(hook)
    for at, arguments in (('numpy', ['train.py']), ('mindspore', ['train.py', '--save', str(tmp_path / 'run')]),
                          ('numpy', ['infer.py', '--text', 'a']), ('numpy', ['-m', 'ms_crf.export']),
                          ('numpy', ['-m', 'ms_crf.compare', *files(corpora)])):
        process = start(arguments, env={**os.environ, 'PYTHONPATH': f'{tmp_path}{os.pathsep}{ROOT}', 'AT': at})
        output, errors = process.communicate(timeout=120)
        program = arguments[0] if arguments[0] != '-m' else arguments[1]
        assert (process.returncode, errors) == (130, f'{program}: stopped\n'), (at, arguments, output)
    assert not (tmp_path / 'run').exists()


@pytest.mark.slow
@pytest.mark.parametrize('package', ['mindspore', 'numpy', 'tqdm'])
@pytest.mark.parametrize('arguments', [['train.py'], ['infer.py', '--text', 'a'], ['-m', 'ms_crf', 'compare']])
def test_console_a_package_that_is_not_installed(package, arguments, corpora, undisturbed, tmp_path):
    (tmp_path / 'sitecustomize.py').write_text(f'import sys\nsys.modules[{package!r}] = None\n')
    further = {'infer.py': ['--run', str(undisturbed[0])], 'train.py': ['--save', str(tmp_path / 'run')]}
    result = subprocess.run([sys.executable, *arguments, *further.get(arguments[0], files(corpora))], cwd=ROOT,
                            capture_output=True, text=True, timeout=60,
                            env={**os.environ, 'PYTHONPATH': str(tmp_path)})
    program = {'-m': 'ms-crf compare'}.get(arguments[0], arguments[0])
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr == (f'{program}: {package} is not installed: pip install ms_crf, or pip install -r '
                             'requirements.txt\n')
    assert not (tmp_path / 'run').exists()


@pytest.mark.slow
@pytest.mark.parametrize('signals', [['SIGINT'], ['SIGTERM'], ['SIGHUP']])
def test_console_interrupted_while_the_first_graph_is_compiled(corpora, tmp_path, signals):
    """Checks that two signals during the first compilation end training with one line and status 130.

    The first signal asks training to save after the current step, the second signal stops it immediately.
    """
    # The program patches MindSpore's parser, so that it sends the signals while it reads the first graph function.
    program = ('import os, signal, sys\n'
               'from ms_crf.cli import console\n'
               'console.begin("train.py")\n'
               'from mindspore._extends.parse import parser\n'
               'parse = parser.Parser.parse\n'
               'def interrupted(*arguments):\n'
               '    parser.Parser.parse = parse\n'
               '    for name in os.environ["SIGNALS"].split():\n'
               '        os.kill(os.getpid(), getattr(signal, name))\n'
               '    return parse(*arguments)\n'
               'parser.Parser.parse = interrupted\n'
               'sys.exit(console.enter("train"))\n')
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'SIGNALS': ' '.join(signals * 2)}
    folder = tmp_path / 'work'
    folder.mkdir()
    process = start(['-c', program, *files(corpora), *SMALL, '--save', 'run'], env=environment, cwd=folder)
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, 'train.py: stopped\n'), output
    assert 'Traceback' not in output
    assert not list(folder.glob('rank_*')) and not [file for file in (folder / 'run').iterdir() if file.name[0] == '.']


@pytest.mark.slow
def test_console_training_goes_on_when_nobody_reads_what_it_says(corpora, tmp_path):
    process = start(['train.py', *files(corpora), *SMALL, '--save', str(tmp_path / 'run')])
    assert process.stdout.readline().startswith('train ')
    process.stdout.close()                                       # like `train.py | head -1`
    with contextlib.closing(process.stderr):
        errors = process.stderr.read()
    assert (process.wait(120), errors) == (0, '')
    assert (tmp_path / 'run' / 'scores.json').exists()


@pytest.mark.slow
def test_console_training_goes_on_when_its_output_is_full_or_closed(corpora, tmp_path):
    with open('/dev/full', 'w') as full:
        processes = [
            start(['train.py', *files(corpora), *SMALL, '--save', str(tmp_path / 'full')], stdout=full),
            start(['train.py', *files(corpora), *SMALL, '--save', str(tmp_path / 'closed')], stdout=None,
                  preexec_fn=closed(0, 1))]
    for process, name, why in zip(processes, ('full', 'closed'), ('No space left on device', 'Bad file descriptor')):
        errors = process.communicate(timeout=120)[1]
        assert (process.returncode, errors) == (
            0, f'train.py: standard output cannot be written: {why}; training continues\n')
        assert (tmp_path / name / 'scores.json').exists()


@pytest.mark.slow
@pytest.mark.parametrize('command', COMMANDS)
def test_console_help_with_streams_that_are_closed_or_full(command):
    with open('/dev/full', 'w') as full:
        for why, options in (('No space left on device', {'stdout': full}),
                             ('Bad file descriptor', {'stdout': None, 'preexec_fn': closed(1)}),
                             (None, {'stdout': None, 'stderr': None, 'preexec_fn': closed(0, 1, 2)})):
            process = start([*command, '--help'], **options)
            errors = process.communicate(timeout=60)[1]
            program = f'ms-crf {command[-1]}' if 'ms_crf' in command else command[-1]
            assert process.returncode == 2
            assert errors == (why and f'{program}: standard output cannot be written: {why}\n')


@pytest.mark.slow
def test_console_standard_input_that_is_closed(corpora, tmp_path):
    run = str(tmp_path / 'run')
    made = start(['train.py', *files(corpora), '--model', 'hmm', '--save', run], preexec_fn=closed(0))
    assert made.communicate(timeout=60)[1] == ''                 # training does not read standard input
    process = start(['infer.py', '--run', run], preexec_fn=closed(0))
    assert process.communicate(timeout=60) == (
        '', 'infer.py: standard input: cannot be read: Bad file descriptor\n')
    assert process.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize('library', ['sys', 'mindspore'])
def test_console_interrupted_when_all_is_done(library):
    """Checks that SIGINT at interpreter exit does not change the exit status of a finished command.

    The handler that sends the signal is registered first. Python calls it last, after the exit handlers of MindSpore.
    """
    program = ('import atexit, os, signal, sys\n'
               'atexit.register(os.kill, os.getpid(), signal.SIGINT)\n'
               'from ms_crf.cli import console\n'
               'sys.argv = ["infer.py", "--help"]\n'
               f'import {library}\n'
               'sys.exit(console.enter("infer"))\n')
    process = start(['-c', program])
    assert process.communicate(timeout=60)[1] == ''
    assert process.returncode == 0


def test_console_an_error_with_standard_error_closed_still_has_its_status():
    process = start(['train.py', '--bogus'], stderr=None, preexec_fn=closed(2))
    assert (process.communicate(timeout=60)[0], process.returncode) == ('', 2)


def test_console_nohup_stays_nohup():
    """Checks that a signal that was ignored at the start (as with nohup) stays ignored while the command runs."""
    program = ('from ms_crf.base import processes; from ms_crf.cli import console; import os, signal\n'
               'console.begin("x")\n'
               'os.kill(os.getpid(), signal.SIGHUP)\n'
               'with processes.handling_signals(processes.interrupt): os.kill(os.getpid(), signal.SIGHUP)\n'
               'print("still here")')
    process = start(['-c', program], preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert process.communicate(timeout=60)[0] == 'still here\n'


@pytest.mark.slow
def test_console_training_goes_on_when_a_signal_comes_that_was_ignored(corpora, tmp_path):
    """Checks that training continues after SIGINT if SIGINT was ignored at the start, as for a background job.

    MindSpore installs its own signal handler while it compiles a graph, so the test sends the signal after an epoch.
    """
    with start(['-u', 'train.py', *files(corpora), *SMALL, '--save', str(tmp_path / 'run')],
               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) as process:
        for line in process.stdout:
            if line.startswith('epoch   1'):
                process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (0, '')
    assert (tmp_path / 'run' / 'scores.json').exists()
