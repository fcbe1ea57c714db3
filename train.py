"""Trains a tagger on column files: python train.py --help"""

import sys

from ms_crf.cli.console import enter

if __name__ == '__main__':
    sys.exit(enter('train'))
