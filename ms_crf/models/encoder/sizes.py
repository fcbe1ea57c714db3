"""What a training over an encoder holds in memory at the very least, so that one that can't fit is refused."""

from collections.abc import Sequence

from ms_crf.models.bucketing import RowShape
from ms_crf.models.encoder.pretrained import Sizes
from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token
from ms_crf.options import Options


def check_subwords(options: Options, sizes: Sizes, tags: int, shapes: Sequence[RowShape], subwords: int) -> None:
    """Raises OptionError if a training over an encoder can't fit into the memory that is there.

    Args:
        options: of the training.
        sizes: of the encoder.
        tags: how many there are.
        shapes: of the batches.
        subwords: how many there are in all files.
    """
    def count(changed: Options) -> int:
        layers = changed.layers if changed.encoder_lstm else 0
        weights = layer_weights(sizes.width, changed.encoder_lstm, layers, tags, changed.head)
        step = max(shape.length * shape.rows for shape in shapes) * values_of_a_token(
            sizes.width, changed.encoder_lstm, layers, tags)
        kept = 0 if changed.encoder_lr > 0 or changed.encoder_cache else subwords * sizes.width
        return weights * copies(changed) + int(step * changed.batch_size / options.batch_size) + kept

    check_fits(options, count, 'these files and no --encoder-cache')
