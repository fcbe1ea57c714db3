"""The command line that scores a model on tagged sentences: python -m ms_crf.evaluate --help"""

import sys

from ms_crf import console

if __name__ == '__main__':       # before anything that takes long to import: from here on Ctrl-C is one line
    sys.exit(console.enter('evaluate'))

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, cast

from ms_crf import files
from ms_crf.arguments import Parser, add_common, add_model, check_model, parse
from ms_crf.errors import OptionError, brief
from ms_crf.models.base import device_for, unknown_tag_of
from ms_crf.options import Options
from ms_crf.reports.evaluation import evaluate
from ms_crf.runs.records import check_output, newest
from ms_crf.tagger import Tagger
from ms_crf.text import bootstrap
from ms_crf.text.bootstrap import Interval
from ms_crf.text.dataset import check_judged
from ms_crf.text.metrics import percent
from ms_crf.text.readers import is_json, read_corpus


def parser() -> Parser:
    made = Parser(prog=console.program('evaluate'),
                  description='Scores a model on tagged sentences: exact entities, overall and by type, and tokens, '
                              'with intervals that say what chance has in it.')
    add_model(made)
    made.add_argument('--input', metavar='FILE', help='tagged sentences: columns, or JSON lines (.jsonl)')
    add_input(made)
    made.add_argument('--json', metavar='FILE', help='write all figures there')
    add_common(made)
    return made


def add_input(parser: Parser) -> None:
    """Adds --columns, --unknown-tag, and --seed and --resamples of the bootstrap."""
    parser.add_argument('--columns', metavar='TOKEN,TAG', default='0,-1',
                        help='column of the token and of the tag, from 0, or from -1 backwards (default: 0,-1)')
    parser.add_argument('--unknown-tag', metavar='TAG',
                        help='what stands in place of the tag of a token that nobody has judged, which does not '
                             "count; '' for nothing (default: as the model was trained)")
    parser.add_argument('--resamples', metavar='N', type=int, default=bootstrap.RESAMPLES,
                        help='how many times sentences are drawn for the intervals (default: %(default)s)')
    parser.add_argument('--seed', metavar='N', type=int, default=bootstrap.SEED,
                        help='of these draws (default: %(default)s)')


def check_input(parsed: Any, named: Container[str]) -> tuple[int, ...]:
    """Raises OptionError if one of the options of `add_input` can't be; returns --columns as numbers."""
    if not bootstrap.LEAST <= parsed.resamples <= bootstrap.MOST:
        raise OptionError(f'--resamples must be from {bootstrap.LEAST} to {bootstrap.MOST:,}, got '
                          f'{brief(parsed.resamples)}')
    options = Options(columns=parsed.columns, seed=parsed.seed)
    options.check()
    if 'columns' in named and parsed.input and is_json(parsed.input):
        raise OptionError('--columns means nothing with JSON lines; leave it away')
    return options.column_pair()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return console.command('evaluate', _evaluate, arguments)


def _evaluate(arguments: Sequence[str]) -> int:
    parsed, named = parse(parser, arguments)
    if parsed.input is None:
        raise OptionError('the following arguments are required: --input; see --help')
    check_model(parsed)
    columns = check_input(parsed, named)
    if parsed.json:
        check_output(parsed.json, parsed.input)
    path = parsed.mindir or parsed.run or newest('runs')
    device_for(parsed.device, console.program('evaluate'), path)
    tagger = Tagger.load(path)
    mark = unknown_tag_of(path, tagger.tags) if parsed.unknown_tag is None else parsed.unknown_tag
    sentences = read_corpus(parsed.input, columns, tagger.splitter, mark=mark)
    check_judged(parsed.input, sentences)
    found = evaluate(tagger, sentences, parsed.input, False, parsed.resamples, parsed.seed)
    record = {'model': str(path), 'input': parsed.input, **found.to_json()}
    if parsed.json:
        files.write_text(parsed.json, json.dumps(record, ensure_ascii=False, indent=1) + '\n')
    cast(Any, sys.stdout).reconfigure(encoding='utf-8', errors='backslashreplace')
    for line in lines(record):
        console.show(line)
    return 0


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """The figures as a table.

    Args:
        record: what `Evaluation.to_json` gave.
    """
    drawn, exact, by_token = record['bootstrap'], record['exact'], record['by_token']
    plain = record['scheme'] == 'plain'
    unit = 'tags' if plain else 'entities'
    yield (f'{record["sentences"]} sentences, {record["tokens"]} tokens, {exact["support"]} {unit}; '
           f'{100 * drawn["level"]:.0f} % intervals from {drawn["resamples"]} resamples of sentences')
    width = max(map(len, ['overall', 'accuracy', *exact['by_type']]))
    if record['unjudged']:
        yield (f'{record["unjudged"]} tokens beside these are not judged and do not count, nor do '
               f'{unit} with them')
    yield ''
    yield from _table(unit, exact, width)
    yield ''
    yield 'by token'
    yield (f'{"accuracy":<{width}}  {100 * by_token["accuracy"]:6.2f} %  '
           f'{_shown(by_token["accuracy_interval"])}')
    if by_token['raw_accuracy'] != by_token['accuracy']:
        yield f'{"":<{width}}  {100 * by_token["raw_accuracy"]:6.2f} %  as conlleval computes it, of unconverted tags'
    if not plain:
        yield from _table('tokens', by_token, width)


def _table(unit: str, record: Mapping[str, Any], width: int) -> Iterator[str]:
    yield f'{unit:<{width}}  precision  recall      F1  {"interval of F1":<15}  support  predicted'
    for name, row in [('overall', record), *record['by_type'].items()]:
        rates = percent(row['correct'], row['predicted']), percent(row['correct'], row['support'])
        f1 = percent(2 * row['correct'], row['predicted'] + row['support'])
        yield (f'{name:<{width}}  {rates[0]:9.2f}  {rates[1]:6.2f}  {f1:6.2f}  {_shown(row["f1_interval"]):<15}  '
               f'{row["support"]:7}  {row["predicted"]:9}')


def _shown(interval: Interval | None) -> str:
    return 'none' if interval is None else f'{100 * interval[0]:6.2f} - {100 * interval[1]:6.2f}'
