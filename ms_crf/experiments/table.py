"""The table of an experiment, in Markdown."""

import statistics
from collections.abc import Iterable, Sequence

#: rates and their heads
RATES = {'precision': 'P', 'recall': 'R', 'f1': 'F1', 'accuracy': 'accuracy'}


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown, without a line end after its last row."""
    first, *others = (f'| {" | ".join(row)} |' for row in (heads, *rows))
    return '\n'.join([first, '|---' * len(heads) + '|', *others])


def mean_and_deviation(shares: Sequence[float]) -> str:
    """Returns the mean of shares in percent and, if there are several, their standard deviation: '55.00 ± 7.07'."""
    deviation = f' ± {100 * statistics.stdev(shares):.2f}' if len(shares) > 1 else ''
    return f'{100 * statistics.mean(shares):.2f}{deviation}'
