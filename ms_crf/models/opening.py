"""Opens trained models, run directories and exported graphs, and exports runs; plugins register model types."""

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ms_crf.base.environment import choose_device
from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.models.base import CONFIDENCES, EMISSIONS, PATHS, Compiled, Decoder, kind_of_run
from ms_crf.models.graph_record import Graph, check_target, record_of
from ms_crf.runs.arguments import ExportArguments
from ms_crf.runs.records import newest
from ms_crf.runs.run import SavedRun


def run_plugin(path: str) -> None:
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


def open_model(path: PathLike | SavedRun | Graph) -> SavedRun | Graph:
    """Opens a run directory, or a graph if the name ends in .mindir; an opened one is returned as it is.

    Raises:
        CorpusError: it is damaged, of another version, or neither of both.
    """
    if isinstance(path, (SavedRun, Graph)):
        return path
    return Graph(path) if str(path).endswith('.mindir') else SavedRun.open(path)


def decoder_of(model: SavedRun | Graph, compiled: Compiled | None = None) -> Decoder:
    """What tags with a model; `compiled` is called after a graph of a run was compiled."""
    if isinstance(model, SavedRun):
        return kind_of_run(model).load(model, compiled)
    from ms_crf.models.mindir import MindIRDecoder  # here, because it starts MindSpore
    return MindIRDecoder(model)


def device_for(name: str, *models: SavedRun | Graph, watcher: Watcher = SILENT) -> str | None:
    """Makes MindSpore compute on a device, if one of some models computes with MindSpore.

    Args:
        name: of the device, see `choose_device`.
        models: that will be used.
        watcher: is told which device it is.

    Returns:
        The name of the device; None if MindSpore is not needed.

    Raises:
        OptionError: the device does not work here, or the models compute on the CPU.
    """
    if any(model.uses_mindspore for model in models):
        return choose_device(name, watcher)
    if name not in ('auto', 'CPU'):
        found = ' and '.join(f'{model.path}, of kind {model.kind_name}' for model in models)
        raise OptionError(f'{argument("device")} {name} means nothing to {found}, which computes on the CPU; leave it '
                          'away')
    return None


class Exported(NamedTuple):
    """The files that `export` has written, and the run that they are from."""

    graph: Path
    record: Path               # in JSON, what a program needs to run the graph
    run: Path


def export(output: PathLike = 'model.mindir', *, run: PathLike | None = None, confidence: bool = False,
           emissions: bool = False, static: Sequence[int] | None = None, plugin: PathLike | None = None,
           device: str = 'auto', watcher: Watcher = SILENT) -> Exported:
    """Writes the model of a run as a MindIR graph, and a record in JSON with vocabularies and tags.

    Args:
        output: path of the graph, which ends in .mindir; the record has the same name and ends in .json.
        run: run directory; by default the newest in runs/.
        confidence: whether the graph also returns posteriors.
        emissions: whether the graph returns score and history, the input of `post_decode`, in place of paths.
        static: batch size and length of a graph for this shape only; by default it takes every shape.
        plugin: Python file that registers kinds of model.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: is told what is found out about the device.

    Returns:
        The paths of both files, and of the run.

    Raises:
        OptionError: an argument can't be, or the model can't be exported so.
        CorpusError: the run is damaged, or the files can't be written; earlier files stay.

    Example:
        >>> from ms_crf.api import export
        >>> export('model.mindir', run='runs/sample').record                              # doctest: +SKIP
        PosixPath('model.json')
    """
    given = ExportArguments.from_call(locals())
    if given.plugin:
        run_plugin(given.plugin)
    path = Path(given.output)
    check_target(path)
    folder = Path(given.run or newest('runs'))
    choose_device(given.device, watcher)
    from ms_crf.models import mindir  # here, because it starts MindSpore
    what = CONFIDENCES if given.confidence else EMISSIONS if given.emissions else PATHS
    mindir.export(folder, path, what, (given.static[0], given.static[1]) if given.static else None)
    return Exported(path, record_of(path), folder)
