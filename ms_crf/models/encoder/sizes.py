"""What a training over an encoder holds in memory at the very least; see `ms_crf.models.sizes`."""

from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token


def check_pieces(options, sizes, tags, shapes, pieces):
    """Likewise for a training over an encoder.

    Args:
        options: `Options`.
        sizes: `Sizes` of the encoder.
        tags: how many there are.
        shapes: `RowShape` of the batches.
        pieces: how many there are in all files.
    """
    def count(changed):
        layers = changed.layers if changed.encoder_lstm else 0
        weights = layer_weights(sizes.width, changed.encoder_lstm, layers, tags, changed.head)
        step = max(shape.length * shape.rows for shape in shapes) * values_of_a_token(
            sizes.width, changed.encoder_lstm, layers, tags)
        kept = 0 if changed.encoder_lr > 0 or changed.encoder_cache else pieces * sizes.width
        return weights * copies(changed) + int(step * changed.batch_size / options.batch_size) + kept

    check_fits(options, count, 'these files and no --encoder-cache')
