"""Python files of users that register kinds of model of their own."""

import importlib.util
import os
import sys
import traceback

from ms_crf.base.errors import OptionError, argument


def load(path: str) -> None:
    """Runs a Python file that registers kinds of model, unless it has run already.

    Args:
        path: of the file.

    Raises:
        OptionError: the file is not there, or fails.
    """
    if not os.path.isfile(path):
        raise OptionError(f'{argument("plugin")} must be a Python file, got {path!r}, which is none')
    # A name in sys.modules, where MindSpore looks up the module of a function when it compiles it.
    name = f'ms_crf_plugin_{os.path.basename(path).partition(".")[0]}'
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise OptionError(f'{argument("plugin")} must be a Python file whose name ends in .py, got {path!r}')
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:     # whatever it raises is a fault of the plugin
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        line = getattr(error, 'lineno', None) if isinstance(error, SyntaxError) else lines[-1] if lines else None
        location = f'{path}:{line}' if line else path
        raise OptionError(f'{argument("plugin")}: {location}: {type(error).__name__}: {error}') from None
