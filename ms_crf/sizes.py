"""What a training holds in memory at the very least, so that one that can't fit is refused before it begins.

Weights are counted exactly; of what a step computes only what is certainly there at once, so that nothing that would
work is refused.
"""

from dataclasses import fields, replace

from ms_crf.errors import OptionError
from ms_crf.memory import check_memory
from ms_crf.options import Options, dashed

BYTES = 4                      # of a number
_DEFAULTS = {entry.name: entry.default for entry in fields(Options)}
_LARGE = ('word_dim', 'char_dim', 'char_width', 'char_length', 'hidden', 'encoder_lstm', 'layers', 'batch_size')


def check_words(options, vocabulary, word_dim, shapes):
    """Raises OptionError if a training over words can't fit into the memory that is there.

    Args:
        options: `Options`.
        vocabulary: a `Vocabulary`.
        word_dim: width of a word's vector.
        shapes: `Shape` of the batches.
    """
    tags = len(vocabulary.tags)

    def count(changed):
        dim, share = word_dim if options.embeddings else changed.word_dim, changed.batch_size / options.batch_size
        weights, step, width = vocabulary.num_words * dim, 0, dim
        if changed.char != 'none':
            weights += character_weights(changed, vocabulary.num_characters)
            half, width = (changed.char_length + 1) // 2, width + changed.char_width
            # What the filters read and find, or the LSTM, at each character and one beyond either end.
            values = (3 if changed.char == 'cnn' else 1) * changed.char_dim + changed.char_width
            step = values * max(shape.long_forms * (changed.char_length + 2) + shape.short_forms * (half + 2)
                                for shape in shapes)
        weights += layer_weights(width, changed.hidden, changed.layers, tags, changed.head)
        step += max(shape.length * shape.rows for shape in shapes) * _values(
            width, changed.hidden, changed.layers, tags)
        return weights * _copies(changed) + int(step * share)

    _check(options, count, f'--embeddings {options.embeddings}' if options.embeddings else 'these files')


def check_pieces(options, sizes, tags, shapes, pieces):
    """Likewise for a training over an encoder.

    Args:
        options: `Options`.
        sizes: `Sizes` of the encoder.
        tags: how many there are.
        shapes: `PieceShape` of the batches.
        pieces: how many there are in all files.
    """
    def count(changed):
        layers = changed.layers if changed.encoder_lstm else 0
        weights = layer_weights(sizes.width, changed.encoder_lstm, layers, tags, changed.head)
        step = max(shape.length * shape.rows for shape in shapes) * _values(
            sizes.width, changed.encoder_lstm, layers, tags)
        kept = 0 if changed.encoder_lr > 0 or changed.encoder_cache else pieces * sizes.width
        return weights * _copies(changed) + int(step * changed.batch_size / options.batch_size) + kept

    _check(options, count, 'these files and no --encoder-cache')


def layer_weights(width, hidden, layers, tags, head):
    """How many numbers the weights of `Layers` are."""
    total = 0
    for _ in range(layers):
        total += 2 * 4 * (hidden // 2) * (width + hidden // 2 + 2)       # directions, gates, rows, columns with biases
        width = hidden
    return total + (width + 1) * tags + (tags * (tags + 2) if head == 'crf' else 0)


def character_weights(options, num_characters):
    """How many numbers the weights of a `CharacterCNN` or a `CharacterLSTM` are."""
    dim, width = options.char_dim, options.char_width
    read = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + read


def _copies(options):
    """How often a weight is held: itself, its gradient, the optimizer's moments, the average."""
    return 2 + (1 if options.optimizer == 'sgd' else 2) + (options.average > 0)


def _values(width, hidden, layers, tags):
    """Of each token in a step: vectors and outputs of layers, each with and without dropout and what it is; scores."""
    return 3 * (width + hidden * layers) + tags


def _check(options, count, otherwise):
    """Raises OptionError if what `count` makes of the options doesn't fit; it names those that make it so large.

    They are those that are above their defaults and without which it would be much smaller; `otherwise` stands for them
    if there are none.
    """
    size = count(options)
    saved = {name: size - count(replace(options, **{name: _DEFAULTS[name]})) for name in _LARGE
             if getattr(options, name) > _DEFAULTS[name]}
    named = [f'--{dashed(name)} {getattr(options, name)}' for name in saved if 2 * saved[name] >= max(saved.values())]
    try:
        check_memory(BYTES * size, f'a training with {" and ".join(named) or otherwise}')
    except ValueError as error:
        raise OptionError(str(error)) from None
