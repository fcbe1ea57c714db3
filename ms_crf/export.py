"""Runs the command that exports a run to MindIR: python -m ms_crf.export --help"""

import sys

from ms_crf.cli.console import enter

if __name__ == '__main__':
    sys.exit(enter('export'))
