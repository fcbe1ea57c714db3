"""Starts the commands: python -m ms_crf VERB ..."""

import sys

from ms_crf.cli.main import main

if __name__ == '__main__':
    sys.exit(main())
