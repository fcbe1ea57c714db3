"""Libraries that only reports need, imported where they are used."""

import importlib
import logging
import os
from typing import Any

from ms_crf.base.errors import not_installed

NAMES = ('jinja2', 'matplotlib')
_BACKEND = 'MPLBACKEND'        # a name in it that matplotlib does not know would be an error of the import


def library(name: str) -> Any:
    """A module of one of them; raises OptionError if that is not installed."""
    # It would say on screen where it keeps its fonts, and what it thinks of the user's settings.
    logging.getLogger('matplotlib').setLevel(logging.CRITICAL + 1)
    before = os.environ.pop(_BACKEND, None)
    try:
        return importlib.import_module(name)
    except ImportError:
        raise not_installed('a report', name.partition('.')[0], 'report') from None
    finally:
        if before is not None:
            os.environ[_BACKEND] = before
