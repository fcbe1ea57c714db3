"""Shared by the benchmarks: contestants in separate processes, alternating measurements, and the processor name."""

import contextlib
import platform
import subprocess
import sys
import time
from pathlib import Path


class Quiet:
    """A watcher of a training that ignores all messages and progress."""

    def __getattr__(self, name):
        return lambda *_: None

    def progress(self, *_):
        return contextlib.nullcontext(lambda _: None)


def start(name, *arguments):
    """Starts a contestant: a child process that runs the same benchmark program with `--contestant NAME`."""
    return subprocess.Popen([sys.executable, sys.argv[0], *arguments, '--contestant', name], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(process, *words):
    """Sends a line of words to a contestant; returns the numbers in its answer."""
    process.stdin.write(' '.join(map(str, words)) + '\n')
    process.stdin.flush()
    return [float(word) for word in process.stdout.readline().split()]


def stop(processes):
    """Closes the standard input of the contestants, which ends them, and waits for them."""
    for process in processes.values():
        process.stdin.close()
        process.wait()


def calls(function, warm_up, repeats):
    """Returns the seconds of each measured call, after warm-up calls."""
    for _ in range(warm_up):
        function()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return seconds


def processor():
    info = Path('/proc/cpuinfo')
    names = [line.split(':')[1].strip() for line in info.read_text().splitlines() if line.startswith('model name')
             ] if info.exists() else []
    return names[0] if names else platform.processor()
