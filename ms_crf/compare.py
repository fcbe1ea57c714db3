"""Runs the command that compares models: python -m ms_crf.compare --help"""

import sys

from ms_crf.cli.console import enter

if __name__ == '__main__':
    sys.exit(enter('compare'))
