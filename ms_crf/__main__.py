"""Runs the commands: python -m ms_crf COMMAND ..."""

import sys

from ms_crf.cli.main import main

if __name__ == '__main__':
    sys.exit(main())
