"""The function `export`: the model of a run as a graph that other programs can run."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ms_crf.base.environment import choose_device
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.models import plugins
from ms_crf.models.base import CONFIDENCES, EMISSIONS, PATHS
from ms_crf.models.graph_record import check_target, record_of
from ms_crf.runs.arguments import ExportArguments
from ms_crf.runs.records import newest


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
    given = ExportArguments.given(locals())
    if given.plugin:
        plugins.load(given.plugin)
    path = Path(given.output)
    check_target(path)
    folder = Path(given.run or newest('runs'))
    choose_device(given.device, watcher)
    from ms_crf.models import mindir  # here, because it starts MindSpore
    what = CONFIDENCES if given.confidence else EMISSIONS if given.emissions else PATHS
    mindir.export(folder, path, what, (given.static[0], given.static[1]) if given.static else None)
    return Exported(path, record_of(path), folder)
