"""One door for trained models: a run directory or an exported graph, opened once."""

from ms_crf.base.environment import choose_device
from ms_crf.base.errors import OptionError, argument
from ms_crf.base.files import PathLike
from ms_crf.base.watchers import SILENT, Watcher
from ms_crf.models.base import Compiled, Decoder
from ms_crf.models.graph_record import Graph
from ms_crf.models.registry import kind_of_run
from ms_crf.runs.run import Run


def open_model(path: PathLike | Run | Graph) -> Run | Graph:
    """Opens a run directory, or a graph if the name ends in .mindir; an opened one is returned as it is.

    Raises:
        CorpusError: it is damaged, of another version, or neither of both.
    """
    if isinstance(path, (Run, Graph)):
        return path
    return Graph(path) if str(path).endswith('.mindir') else Run.open(path)


def decoder_of(model: Run | Graph, compiled: Compiled | None = None) -> Decoder:
    """What tags with a model; `compiled` is called after a graph of a run was compiled."""
    if isinstance(model, Run):
        return kind_of_run(model).load(model, compiled)
    from ms_crf.models.mindir import MindIRDecoder  # here, because it starts MindSpore
    return MindIRDecoder.load(model)


def device_for(name: str, *models: Run | Graph, watcher: Watcher = SILENT) -> str | None:
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
