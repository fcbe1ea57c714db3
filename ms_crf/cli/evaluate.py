"""The command `ms-crf evaluate`: scores a model on tagged sentences."""

from collections.abc import Iterator, Mapping
from typing import Any

from ms_crf.api import evaluate
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import Terminal
from ms_crf.runs.arguments import EvaluateArguments
from ms_crf.text.bootstrap import Interval
from ms_crf.text.metrics import percent


def _main(parsed: Namespace, named: Named) -> None:
    """Scores a model on tagged sentences and prints precision, recall and F1, overall, by type and by token, with
    bootstrap confidence intervals.
    """
    result = evaluate(**named, watcher=Terminal('evaluate'))
    console.use_utf8()
    for line in lines(result.to_json()):
        console.show(line)


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of the tables that `evaluate` prints.

    Args:
        record: result of `Evaluation.to_json`.
    """
    drawn, exact, by_token = record['bootstrap'], record['exact'], record['by_token']
    plain = record['scheme'] == 'plain'
    unit = 'tags' if plain else 'entities'
    yield (f'{record["sentences"]} sentences, {record["tokens"]} tokens, {exact["support"]} {unit}; '
           f'{100 * drawn["level"]:.0f} % intervals from {drawn["resamples"]} resamples of sentences')
    width = max(map(len, ['overall', 'accuracy', *exact['by_type']]))
    if record['unjudged']:
        yield (f'{record["unjudged"]} more tokens are not annotated and do not count; {unit} that contain them are '
               'ignored')
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


parser, main = command('evaluate', EvaluateArguments, _main)
