"""What a training over words holds in memory at the very least; see `ms_crf.models.sizes`."""

from ms_crf.models.sizes import check_fits, copies, layer_weights, values_of_a_token


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
        step += max(shape.length * shape.rows for shape in shapes) * values_of_a_token(
            width, changed.hidden, changed.layers, tags)
        return weights * copies(changed) + int(step * share)

    check_fits(options, count, f'--embeddings {options.embeddings}' if options.embeddings else 'these files')


def character_weights(options, num_characters):
    """How many numbers the weights of a `CharacterCNN` or a `CharacterLSTM` are."""
    dim, width = options.char_dim, options.char_width
    read = 3 * dim * width if options.char == 'cnn' else 2 * 4 * (width // 2) * (dim + width // 2 + 2)
    return num_characters * dim + read
