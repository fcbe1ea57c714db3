"""Trains a tagger on column files: python train.py --help"""

import sys

from ms_crf.train_command import main

if __name__ == '__main__':
    sys.exit(main())
