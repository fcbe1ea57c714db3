"""Kills a training at random moments and resumes it each time: python benchmarks/resume.py [options of train.py]

Compares the state and the weights that are left with those of a run that nothing disturbed, bit by bit.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KILLS = 10


def train(*arguments):
    return subprocess.Popen([sys.executable, 'train.py', *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)


def main():
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = f'{folder}/whole', f'{folder}/killed'
        began = time.perf_counter()
        if train(*sys.argv[1:], '--save', whole).wait():
            sys.exit('the undisturbed run failed')
        seconds = time.perf_counter() - began
        generator = random.Random(1)
        for kill in range(KILLS):
            started = Path(killed).exists()
            process = train('--resume', killed) if started else train(*sys.argv[1:], '--save', killed)
            # Early enough that ten of them fit into the run, late enough that most of them find it training.
            moment = generator.uniform(0.05, 0.35) * seconds
            try:
                process.wait(moment)
                print(f'{kill + 1:>2}: had ended before {moment:.1f} s')
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                print(f'{kill + 1:>2}: killed after {moment:.1f} s', flush=True)
        if train('--resume', killed).wait():
            sys.exit('the resumed run failed')
        same = all((Path(whole) / name).read_bytes() == (Path(killed) / name).read_bytes()
                   for name in ('weights.ckpt', 'state.ckpt', 'scores.json'))
        print('the same bits' if same else 'NOT the same bits')
        sys.exit(not same)


if __name__ == '__main__':
    main()
