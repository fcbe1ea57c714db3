"""Command lines whose faults are one line, as all others are."""

import argparse

from ms_crf.options import OptionError


class Parser(argparse.ArgumentParser):
    """Raises OptionError where argparse would print and exit."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message):
        raise OptionError(f'{message}; see --help')
