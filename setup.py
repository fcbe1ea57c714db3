"""Builds the operators in C++ into the wheel, where there is a compiler; without one the wheel has their source only.

Everything else about the package stands in pyproject.toml.
"""

import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:                                              # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

NATIVE = 'ms_crf/native'
SAMPLE = 'ms_crf.sample'                        # the sample corpus, which is in the folder data of a checkout
sys.path.insert(0, str(Path(__file__).parent))   # what compiles needs nothing that is to be installed


class Build(build_py):
    """Also compiles, for each level of the processors of this kind. The sample corpus is data without its generator."""

    def find_package_modules(self, package, package_dir):
        return [] if package == SAMPLE else super().find_package_modules(package, package_dir)

    def run(self):
        super().run()
        if self.editable_mode or platform.system() != 'Linux':
            return
        from ms_crf.native import library
        folder = Path(self.build_lib, NATIVE)
        levels = library.LEVELS if platform.machine() == 'x86_64' else (None,)
        with ThreadPoolExecutor() as threads:                    # each waits for a compiler
            list(threads.map(lambda march: self._compile(folder / library.name_of(march), march), levels))

    @staticmethod
    def _compile(path, march):
        from ms_crf.native import library
        if library.compile_to(path, march):
            library.checksum_file(path).write_text(library.checksum(path, path.name))
        else:
            path.unlink(missing_ok=True)


class Wheel(bdist_wheel):
    """Of any Python, but of one platform if it has libraries."""

    def get_tag(self):
        tag = super().get_tag()
        compiled = list(Path(self.bdist_dir or '', NATIVE).glob('*.so'))
        if not compiled:
            return tag
        return 'py3', 'none', self.plat_name.replace('-', '_').replace('.', '_')


setup(packages=[*find_packages(include=['ms_crf', 'ms_crf.*']), SAMPLE],
      cmdclass={'build_py': Build, 'bdist_wheel': Wheel})
