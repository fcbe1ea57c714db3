"""The command line of the export to MindIR: python -m ms_crf.export --help"""


from collections.abc import Sequence
from pathlib import Path

from ms_crf.base.environment import choose_device
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.cli.parser import Parser, add_common, parse
from ms_crf.cli.terminal import Terminal
from ms_crf.models.base import CONFIDENCES, EMISSIONS, PATHS
from ms_crf.models.graph_record import check_target, record_of
from ms_crf.runs.records import newest


def parser() -> Parser:
    made = Parser(prog=console.program('export'),
                  description='Writes the model of a run as a MindIR graph, and beside it, in JSON, what a program '
                              'needs to run it: inputs and outputs in their order, vocabularies and tags. The graph '
                              'takes batches of any size and length: ids in, best paths and their scores out.')
    made.add_argument('--run', metavar='DIR', help='run directory (default: the newest in runs/)')
    made.add_argument('--output', metavar='FILE', default='model.mindir', help='graph to write (default: %(default)s)')
    what = made.add_mutually_exclusive_group()
    what.add_argument('--confidence', action='store_const', const=CONFIDENCES, dest='what', default=PATHS,
                      help='posteriors as well, from which confidences are computed')
    what.add_argument('--emissions', action='store_const', const=EMISSIONS, dest='what',
                      help='stop at score and history, for programs that call post_decode')
    made.add_argument('--static', nargs=2, type=int, metavar=('B', 'L'),
                      help='only for batches of B sentences, padded to L tokens')
    add_common(made, 'compile')
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('export', _export, arguments)


def _export(arguments: Sequence[str]) -> int:
    parsed, _ = parse(parser, arguments)
    path = Path(parsed.output)
    if path.suffix != '.mindir':
        raise OptionError(f'--output must end in .mindir, got {path}')
    check_target(path)
    if parsed.static and min(parsed.static) < 1:
        raise OptionError(f'--static must be two numbers of at least 1, got {" ".join(map(str, parsed.static))}')
    run = parsed.run or newest('runs')
    choose_device(parsed.device, Terminal(console.program('export')))
    from ms_crf.models import mindir  # here, because it starts MindSpore
    mindir.export(run, path, parsed.what, parsed.static)
    console.show(f'{run} is in {path} and {record_of(path)}')
    return 0
