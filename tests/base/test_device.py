"""Devices that are missing or unusable: `--device NAME` is refused, `--device auto` falls back to the CPU."""

import json
import subprocess
import sys

from ms_crf.base import environment

import pytest

from support.paths import ROOT

# Start of a program that believes the machine has a GPU: /dev/null stands in for the device file.
SHOWN = ('import os, sys\n'
         'from ms_crf.base import environment\nfrom ms_crf.base.watchers import Lines\n'
         'shown = Lines(lambda line: print(f"train.py: {line}", file=sys.stderr))\n'
         'environment._DEVICE_FILES = {"Ascend": "/dev/davinci[0-9]*", "GPU": "/dev/null"}\n')
COMPUTES = ('import mindspore as ms\n'
            'print(ms.get_context("device_target"), os.environ["MS_DEV_HOST_BLOCKING_RUN"],\n'
            '      ms.jit(ms.ops.relu)(ms.Tensor([3.0])).asnumpy()[0])\n')
NEEDS = 'MindSpore 2.10 looks for CUDA 11.6 to 11.8 (through nvcc) and cuDNN 8 in addition to the driver'


def run(program, *arguments):
    return subprocess.run([sys.executable, '-c', program, *arguments], cwd=ROOT, capture_output=True, text=True,
                          timeout=120)


@pytest.fixture(autouse=True)
def _without_devices():
    if any(environment.present(name) for name in ('GPU', 'Ascend')):
        pytest.skip('this machine has a device')


@pytest.mark.slow
@pytest.mark.parametrize('device,needs', [
    ('GPU', NEEDS), ('Ascend', 'MindSpore 2.10 looks for CANN 8.2 to 9.1 in addition to the driver')])
def test_device_a_device_that_is_not_here(device, needs):
    result = subprocess.run([sys.executable, 'train.py', '--device', device], cwd=ROOT, capture_output=True, text=True,
                            timeout=60)
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr == (f'train.py: the device {device} does not work here: this machine has no {device} '
                             f'device; {needs}; ms_crf is not tested there; use the CPU, or install these '
                             'libraries\n')


@pytest.mark.slow
def test_device_a_device_that_can_not_be_used_is_refused_where_it_is_named():
    result = run(SHOWN + 'from ms_crf.cli.train import main\nsys.exit(main(sys.argv[1:]))', '--device', 'GPU')
    assert (result.returncode, result.stdout) == (2, '')
    assert result.stderr == ('train.py: the device GPU does not work here: this MindSpore does not find the libraries '
                             f'that it needs; {NEEDS}; ms_crf is not tested there; use the CPU, or install these '
                             'libraries\n')
    # This MindSpore claims to support the device, but a computation on the device fails.
    program = SHOWN + 'environment._supported = lambda name: True\nenvironment.choose_device("GPU")'
    result = run(program)
    assert result.stderr.splitlines()[-1].startswith(
        'ms_crf.base.errors.OptionError: the device GPU does not work here: ')
    assert 'ERROR]' not in result.stderr and 'WARNING' not in result.stderr


@pytest.mark.slow
def test_device_auto_passes_over_a_device_that_can_not_be_used():
    result = run(SHOWN + 'print(environment.choose_device("auto", shown))\n' + COMPUTES)
    assert (result.returncode, result.stdout) == (0, 'CPU\nCPU 1 3.0\n')
    assert result.stderr == ('train.py: GPU found, but this MindSpore does not find the libraries that it needs; '
                             f'{NEEDS}; computing on the CPU\n')


@pytest.mark.slow
def test_device_auto_tries_a_device_in_a_process_of_its_own():
    """The trial process may raise an error, die or never answer; each time `auto` falls back to the CPU."""
    trials = ['environment._TRIAL', '"import os, signal; os.kill(os.getpid(), signal.SIGKILL)"',
              '"import threading; threading.Event().wait()"', '"raise RuntimeError(\'no such\\\\nkernel\')"']
    program = SHOWN + 'environment._supported = lambda name: True\n'
    for trial in trials:
        program += (f'environment._TRIAL, environment.SECONDS = {trial}, {1 if "wait" in trial else 100}\n'
                    'environment.choose_device("auto", shown)\n')
    result = run(program + COMPUTES)
    assert (result.returncode, result.stdout) == (0, 'CPU 1 3.0\n'), result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 4 and all(line.endswith(f'; {NEEDS}; computing on the CPU') for line in lines)
    for line, reason in zip(lines, ('Unsupported device target GPU', 'a sum on it ended with status -9',
                                    'its first computation took more than 1 s', 'no such')):
        assert line.startswith(f'train.py: GPU found, but {reason}')


@pytest.mark.slow
def test_device_tagging_goes_on_without_the_device(undisturbed):
    program = 'from ms_crf.cli.infer import main\nsys.exit(main(sys.argv[1:]))'
    arguments = ('--run', str(undisturbed[0]), '--text', 'to Xan Yel', '--format', 'json')
    result = run(SHOWN + program, *arguments)
    assert (result.returncode, json.loads(result.stdout)['tokens']) == (0, ['to', 'Xan', 'Yel'])
    assert result.stderr.startswith('infer.py: GPU found, but ') and len(result.stderr.splitlines()) == 1
