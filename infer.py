"""Tags text with a trained model: python infer.py --help"""

import sys

from ms_crf.cli.console import enter

if __name__ == '__main__':
    sys.exit(enter('infer'))
