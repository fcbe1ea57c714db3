"""Opens trained models (run directories and exported graphs), exports runs, and loads plugins with model types."""

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
    """Runs a Python file that registers model types, unless the file has run already.

    Args:
        path: path of the file.

    Raises:
        OptionError: the file is missing, or raises an error.
    """
    if not os.path.isfile(path):
        raise OptionError(f'{argument("plugin")} must be a Python file, got {path!r}, which is not a file')
    # MindSpore looks up the module of a function in sys.modules when it compiles the function.
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
    except (Exception, SystemExit) as error:     # every error that is raised here is an error of the plugin
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        line = getattr(error, 'lineno', None) if isinstance(error, SyntaxError) else lines[-1] if lines else None
        location = f'{path}:{line}' if line else path
        raise OptionError(f'{argument("plugin")}: {location}: {type(error).__name__}: {error}') from None


def open_model(path: PathLike | SavedRun | Graph) -> SavedRun | Graph:
    """Opens a run directory, or an exported graph if the name ends in .mindir; returns an opened model unchanged.

    Raises:
        CorpusError: the model is damaged, was written by another version, or is neither a run nor a graph.
    """
    if isinstance(path, (SavedRun, Graph)):
        return path
    return Graph(path) if str(path).endswith('.mindir') else SavedRun.open(path)


def decoder_of(model: SavedRun | Graph, compiled: Compiled | None = None) -> Decoder:
    """A decoder that tags with a model; `compiled` is called after each compilation of a graph of a run."""
    if isinstance(model, SavedRun):
        return kind_of_run(model).load(model, compiled)
    from ms_crf.models.mindir import MindIRDecoder  # here, because it starts MindSpore
    return MindIRDecoder(model)


def device_for(name: str, *models: SavedRun | Graph, watcher: Watcher = SILENT) -> str | None:
    """Selects the device of MindSpore if a model computes with MindSpore.

    Args:
        name: name of the device, see `choose_device`.
        models: the models that will be used.
        watcher: receives the name of the chosen device.

    Returns:
        The name of the device; None if MindSpore is not needed.

    Raises:
        OptionError: the device does not work on this machine, or the models compute on the CPU only.
    """
    if any(model.uses_mindspore for model in models):
        return choose_device(name, watcher)
    if name not in ('auto', 'CPU'):
        names = ' and '.join(f'{model.path} of type {model.kind_name}' for model in models)
        raise OptionError(f'{argument("device")} {name} has no effect with {names}, which computes on the CPU; omit it')
    return None


class Exported(NamedTuple):
    """The files that `export` has written, and the exported run."""

    graph: Path
    record: Path               # JSON file with the vocabulary, the tags and the shapes of inputs and outputs
    run: Path


def export(output: PathLike = 'model.mindir', *, run: PathLike | None = None, confidence: bool = False,
           emissions: bool = False, static: Sequence[int] | None = None, plugin: PathLike | None = None,
           device: str = 'auto', watcher: Watcher = SILENT) -> Exported:
    """Writes the model of a run as a MindIR graph, and a JSON record with its vocabularies and tags.

    Args:
        output: path of the graph, which ends in .mindir; the record has the same name and ends in .json.
        run: run directory; by default the newest in runs/.
        confidence: whether the graph also returns posteriors.
        emissions: whether the graph returns score and history, the input of `post_decode`, instead of paths.
        static: batch size and length of a graph with this fixed shape; by default the graph takes any shape.
        plugin: Python file that registers custom model types.
        device: 'auto', 'CPU', 'GPU' or 'Ascend'.
        watcher: receives messages about the device.

    Returns:
        The paths of both files, and of the run.

    Raises:
        OptionError: an argument is invalid, or the model does not support this export.
        CorpusError: the run is damaged, or the files cannot be written; earlier files stay unchanged.

    Example:
        >>> from ms_crf.api import export
        >>> export('model.mindir', run='runs/sample').record                              # doctest: +SKIP
        PosixPath('model.json')
    """
    arguments = ExportArguments.from_call(locals())
    if arguments.plugin:
        run_plugin(arguments.plugin)
    path = Path(arguments.output)
    check_target(path)
    folder = Path(arguments.run or newest('runs'))
    choose_device(arguments.device, watcher)
    from ms_crf.models import mindir  # here, because it starts MindSpore
    task = CONFIDENCES if arguments.confidence else EMISSIONS if arguments.emissions else PATHS
    static = (arguments.static[0], arguments.static[1]) if arguments.static else None
    mindir.export(folder, path, task, static)
    return Exported(path, record_of(path), folder)
