"""What a training holds in memory at the very least, so that one that can't fit is refused before it begins.

Weights are counted exactly; of what a step computes only what is certainly there at once, so that nothing that would
work is refused.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from ms_crf.base.errors import OptionError, argument
from ms_crf.base.memory import check_memory
from ms_crf.runs.options import Options

BYTES = 4                      # of a number
_DEFAULTS: dict[str, Any] = {entry.name: entry.default for entry in fields(Options)}
_LARGE = ('word_dim', 'char_dim', 'char_width', 'char_length', 'hidden', 'encoder_lstm', 'layers', 'batch_size')


def layer_weights(width: int, hidden: int, layers: int, tags: int, head: str) -> int:
    """How many numbers the weights of `Layers` are."""
    total = 0
    for _ in range(layers):
        total += 2 * 4 * (hidden // 2) * (width + hidden // 2 + 2)       # directions, gates, rows, columns with biases
        width = hidden
    return total + (width + 1) * tags + (tags * (tags + 2) if head == 'crf' else 0)


def copies(options: Options) -> int:
    """How often a weight is held: itself, its gradient, the optimizer's moments, the average."""
    return 2 + (1 if options.optimizer == 'sgd' else 2) + (options.average > 0)


def values_of_a_token(width: int, hidden: int, layers: int, tags: int) -> int:
    """Of each token in a step: vectors and outputs of layers, each with and without dropout and what it is; scores."""
    return 3 * (width + hidden * layers) + tags


def check_fits(options: Options, count: Callable[[Options], int], otherwise: str) -> None:
    """Raises OptionError if what `count` makes of the options doesn't fit; it names those that make it so large.

    They are those that are above their defaults and without which it would be much smaller; `otherwise` stands for them
    if there are none.
    """
    size = count(options)
    saved = {name: size - count(replace(options, **{name: _DEFAULTS[name]})) for name in _LARGE
             if getattr(options, name) > _DEFAULTS[name]}
    named = [f'{argument(name)} {getattr(options, name)}' for name in saved if 2 * saved[name] >= max(saved.values())]
    try:
        check_memory(BYTES * size, f'a training with {" and ".join(named) or otherwise}')
    except ValueError as error:
        raise OptionError(str(error)) from None
