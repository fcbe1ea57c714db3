"""The memory available to a process, and trainings that are refused before they allocate too much memory."""

import subprocess
import sys
from pathlib import Path

from ms_crf.base import memory
from ms_crf.cli import train
from ms_crf.models import learning
from ms_crf.models.words.learner import character_weights
from ms_crf.models.words.model_type import build_network
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs.options import Options

import pytest

from support.paths import ROOT
from support.trainings import SMALL, files


def test_memory_that_is_there():
    meminfo = Path('/proc/meminfo')
    if not meminfo.exists():
        pytest.skip('no /proc/meminfo here')
    fields = dict(line.split(':') for line in meminfo.read_text().splitlines())
    whole = sum(int(fields[name].split()[0]) for name in ('MemTotal', 'SwapTotal')) * 1024
    assert 0 < memory.available_memory() <= whole


def test_memory_the_limit_of_a_process():
    resource = pytest.importorskip('resource')
    program = ('from ms_crf.base.memory import check_memory, available_memory; print(available_memory())\n'
               'check_memory(3 * 10 ** 9, "it")\n'
               'try:\n check_memory(3 * 10 ** 9 + 1, "the other")\n'
               'except ValueError as error:\n print(error)')
    result = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, timeout=60,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 * 10 ** 9, 3 * 10 ** 9)))
    assert result.stderr == ''
    assert result.stdout == '3000000000\nthe other needs at least 3.0 GB of memory, and 3.0 GB are available\n'


@pytest.mark.parametrize('own,limits,expected', [
    ('0::/a/b\n', {'memory.max': 'max\n', 'a/memory.max': '5000\n', 'a/b/memory.max': '7000\n'}, {5000, 7000}),
    ('0::/\n', {'memory.max': '800\n'}, {800}),
    ('5:cpu,memory:/d\n1:name=x:/y\n', {'memory/d/memory.limit_in_bytes': '900\n', 'memory.max': '1\n'}, {900}),
    ('0::/../..\n', {}, set())])
def test_memory_control_groups(tmp_path, monkeypatch, own, limits, expected):
    (tmp_path / 'own').write_text(own)
    for name, text in limits.items():
        file = tmp_path / 'groups' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(memory, '_CGROUP', str(tmp_path / 'own'))
    monkeypatch.setattr(memory, '_CGROUPS', str(tmp_path / 'groups'))
    assert set(memory._control_groups()) == expected


def test_memory_a_machine_that_says_nothing(monkeypatch):
    monkeypatch.setattr(memory, 'available_memory', lambda: None)
    memory.check_memory(10 ** 40, 'anything')


def test_memory_figures():
    assert [memory.gigabytes(size) for size in (310_000_000, 4_700_000_000, 23_999_999_999, 10 ** 15, 10 ** 40, 4096)
            ] == ['0.3 GB', '4.7 GB', '23 GB', '1,000,000 GB', f'{10 ** 31:,} GB', '4.1e-06 GB']


@pytest.mark.parametrize('changes', [{}, {'bigrams': True}, {'char': 'lstm', 'layers': 3},
                                     {'char': 'none', 'head': 'softmax'},
                                     {'hidden': 10, 'char_width': 4, 'constraints': False}])
def test_memory_weights_are_counted_as_they_are(changes):
    options = Options(**{'hidden': 8, 'char_dim': 3, 'char_width': 6, **changes}).settled(False)
    bigrams = ['on to', ' on'] if changes.get('bigrams') else []
    vocabulary = Vocabulary(['on', 'to'], list('ont'), ['O', 'B-X', 'I-X'], 16, bigrams)
    network = build_network(options, vocabulary, 5, 'BIO')
    read = options.char != 'none'
    width = (15 if bigrams else 5) + options.char_width * read
    layers = learning.layer_weights(width, options.hidden, options.layers, 3, options.head)
    found = sum(parameter.size for parameter in network.trainable_params())
    words = 2 + 2 + 3 * bool(bigrams)                            # padding, unknown, 2 words; 2 bigrams, unknown
    assert found == words * 5 + layers + (
        character_weights(options, vocabulary.num_characters) if read else 0)


@pytest.mark.parametrize('arguments,named', [
    ('--hidden 60000', '--hidden 60000'), ('--hidden 20000 --layers 90', '--hidden 20000 and --layers 90'),
    ('--word-dim 65536', '--word-dim 65536'), ('--char-width 65536 --char-dim 9000', '--char-dim 9000 and --char-width '
                                                                                    '65536'),
    ('--char lstm --char-width 65000', '--char-width 65000'), ('--layers 100 --hidden 200', '--layers 100'),
    ('--batch-size 100000 --hidden 1000', '--hidden 1000 and --batch-size 100000'), ('--epochs 2', 'these files')])
def test_memory_a_training_that_can_not_fit(corpora, tmp_path, monkeypatch, capsys, arguments, named):
    monkeypatch.setattr(memory, 'available_memory', lambda: 10 ** (3 if 'epochs' in arguments else 7))
    folder = tmp_path / 'run'
    assert train.main([*files(corpora), *SMALL, '--save', str(folder), *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f'train.py: a training with {named} needs at least ') and len(error.splitlines()) == 1
    assert ' GB of memory, and ' in error and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_memory_what_is_estimated_is_less_than_what_is_taken(corpora, tmp_path):
    """The growth of the estimate with the layer width must not exceed the growth of the measured peak memory."""
    if not Path('/proc/self/status').exists():                   # in a child, getrusage may return the parent's peak
        pytest.skip('needs the peak memory of a process, which only Linux tells')
    program = ('import sys\nfrom ms_crf.cli import train\nfrom ms_crf.models import learning\n'
               'asked = []\nlearning.check_memory = lambda size, *_, **__: asked.append(size)\n'
               'status = train.main(sys.argv[1:])\n'
               'peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))\n'
               'sys.exit(status or print("peak", asked[0], peak))')
    found = []
    for hidden in ('6', '1500'):
        result = subprocess.run([sys.executable, '-c', program, *files(corpora), *SMALL, '--epochs', '1', '--hidden',
                                 hidden, '--save', str(tmp_path / hidden)], cwd=ROOT, capture_output=True, text=True,
                                timeout=200)
        assert result.returncode == 0, result.stderr
        found.append([int(word) for word in result.stdout.splitlines()[-1].split()[1:]])
    assert 5e7 < found[1][0] - found[0][0] <= (found[1][1] - found[0][1]) * 1024
