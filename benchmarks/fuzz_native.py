"""Compares the C++ operators with float64 NumPy on random inputs: python benchmarks/fuzz_native.py

The library is called as MindSpore calls it, but without MindSpore. For one batch of five, the operators are also called
with a wrong number of inputs, or with wrong shapes and types, which they must reject. With --sanitize the library is
compiled with address and undefined behaviour sanitizers, which end the program at the first fault. The work is then
split as on eight processors.
"""

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from fuzz_chain import check_chain
from fuzz_network import check_characters, check_lstm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from ms_crf.native import library  # noqa: E402

PARTS = {'chain': check_chain, 'lstm': check_lstm, 'characters': check_characters}


class Operators:
    """The functions of a library, on NumPy arrays."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.NativeFault.restype = ctypes.c_char_p

    def call(self, name, inputs, size):
        """Calls an operator and returns its flat result."""
        status, result = self.try_call(name, inputs, size)
        assert status == 0, f'{name} answered {status}: {self.fault()}'
        return result

    def size(self, name, inputs):
        """The size of an operator's result, read from its error message about an empty output."""
        self.try_call(name, inputs, 0)
        return int(re.search(r'output: expected float32 of shape \((\d+)\)', self.fault())[1])

    def fault(self):
        """The error message of the last failed call."""
        return self.library.NativeFault().decode()

    def try_call(self, name, inputs, size):
        """Calls an operator; returns its status (0 for success) and its flat result."""
        arrays = [*(np.asarray(array, order='C') for array in inputs), np.full(size, 12345.0, np.float32)]
        count = len(arrays)
        shapes = [(ctypes.c_int64 * max(1, array.ndim))(*array.shape) for array in arrays]
        pointer = ctypes.POINTER(ctypes.c_int64)
        status = getattr(self.library, name)(
            count, (ctypes.c_void_p * count)(*[array.ctypes.data for array in arrays]),
            (ctypes.c_int * count)(*[array.ndim for array in arrays]),
            (pointer * count)(*[ctypes.cast(shape, pointer) for shape in shapes]),
            (ctypes.c_char_p * count)(*[str(array.dtype).encode() for array in arrays]), None, None)
        return status, arrays[-1]


class WrongInputs(Operators):
    """Operators that are also called with wrong inputs, which they must reject.

    Before each normal call, the operator is called several times with a wrong number, shape or type of inputs.
    """

    # Axes of any size, as no other argument depends on them: characters of a word, all characters, distinct forms.
    ANY_SIZE = (('CharactersWords', 2, 1), ('CharactersGradients', 2, 1), ('CharactersWords', 0, 0),
                ('LstmScoresOfForms', 0, 0))

    def __init__(self, path, rng, changes=4):
        super().__init__(path)
        self.rng, self.changes = rng, changes

    def call(self, name, inputs, size):
        for _ in range(self.changes):
            changed, index, what = self._change(name, inputs)
            status, _ = self.try_call(name, changed, size)
            assert status == 1, f'{name} took input {index} with {what}'
            assert self.fault().startswith(f'{name}: '), f'{name} does not report input {index} with {what}'
        status, _ = self.try_call(name, inputs, 0)
        assert status == 1 and 'output' in self.fault(), f'{name} took an output without numbers'
        return super().call(name, inputs, size)

    def _change(self, name, inputs):
        """Inputs with one change, the index of the changed input, and the kind of change."""
        index = int(self.rng.integers(len(inputs)))
        array = np.asarray(inputs[index])
        axis = int(self.rng.integers(array.ndim))
        kind = self.rng.choice(['size', 'no axis', 'one axis more', 'type', 'missing', 'twice'])
        if kind == 'size' and (name, index, axis) in self.ANY_SIZE:
            kind = 'type'
        if kind in ('missing', 'twice'):
            changed = [*inputs[:index], *([array] * 2 if kind == 'twice' else []), *inputs[index + 1:]]
            return changed, index, kind
        if kind == 'size':
            count = array.shape[axis] + int(self.rng.choice([-1, 1, 5]))
            array = np.resize(array, (*array.shape[:axis], count, *array.shape[axis + 1:]))
        elif kind == 'no axis':
            array = array.reshape(()) if array.size == 1 else array.reshape(-1) if array.ndim > 1 else array[0]
        elif kind == 'one axis more':
            array = np.expand_dims(array, axis)
        else:
            array = array.astype(np.float64)
        return [*inputs[:index], array, *inputs[index + 1:]], index, kind


def sanitized(folder):
    """Compiles the library with sanitizers; returns its path and the libraries to preload, or None on failure."""
    path = Path(folder, 'sanitized.so')
    command = next(library.compilers())
    flags = [flag for flag in library.FLAGS if flag != '-O3']
    compiled = subprocess.run([*command, *flags, '-DPROCESSORS=8', '-O1', '-g', '-fsanitize=address,undefined',
                               '-fno-sanitize-recover=all', '-o', str(path), *map(str, library.sources('cpp'))],
                              capture_output=True)
    if compiled.returncode:
        return None
    # The C++ runtime must be preloaded, too, because the sanitizers intercept its exceptions.
    loaded = [subprocess.run([*command, f'-print-file-name={name}.so'], capture_output=True, text=True,
                             check=True).stdout.strip() for name in ('libasan', 'libstdc++')]
    return path, ':'.join(loaded)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cases', type=int, default=10000, help='number of batches (default: %(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='seed of the first batch (default: %(default)s)')
    parser.add_argument('--part', choices=PARTS, help='operators to test (default: all)')
    parser.add_argument('--march', help='compile for this processor type (-march of the compiler)')
    parser.add_argument('--sanitize', action='store_true',
                        help='compile with address and undefined behaviour sanitizers')
    parser.add_argument('--library', help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    again = ['--cases', str(arguments.cases), '--seed', str(arguments.seed)]
    again += ['--part', arguments.part] if arguments.part else []
    if arguments.sanitize:
        with tempfile.TemporaryDirectory() as folder:
            there = sanitized(folder)
            if there is None:
                print('the compiler here has no sanitizers')
                return 0
            path, runtime = there
            environment = {**os.environ, 'LD_PRELOAD': runtime, 'ASAN_OPTIONS': 'detect_leaks=0'}
            return subprocess.run([sys.executable, __file__, *again, '--library', str(path)],
                                  env=environment).returncode
    if arguments.march:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'operators.so')
            if library.compile_to(path, arguments.march) is None:
                print(f'no compiler here makes a library for {arguments.march}')
                return 1
            return subprocess.run([sys.executable, __file__, *again, '--library', path]).returncode
    path = arguments.library or library.find().path
    operators = Operators(path)
    checks = [PARTS[arguments.part]] if arguments.part else PARTS.values()
    began = time.perf_counter()
    for seed in range(arguments.seed, arguments.seed + arguments.cases):
        tried = operators if seed % 5 else WrongInputs(path, np.random.default_rng(seed))
        for check in checks:
            try:
                check(tried, np.random.default_rng(seed))
            except AssertionError as error:
                print(f'case {seed}: {error}')
                return 1
    by_products, by_logarithms = ctypes.c_int64(), ctypes.c_int64()
    operators.library.ChainCounts(ctypes.byref(by_products), ctypes.byref(by_logarithms))
    print(f'{arguments.cases:,} cases, {time.perf_counter() - began:.0f} s: no fault; rows by products '
          f'{by_products.value:,}, in the log domain as well {by_logarithms.value:,}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
