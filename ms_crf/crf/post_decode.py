"""The back-trace through a Viterbi history on the host, for graphs that return scores and history."""

from contextlib import suppress

from ms_crf.crf.validation import as_array, check_integers, check_lengths

import numpy as np
from numpy.typing import ArrayLike


def post_decode(score: ArrayLike, history: ArrayLike, seq_length: ArrayLike) -> list[list[int]]:
    """Returns the best path of each row, from Viterbi scores and history.

    Args:
        score: (batch, num_tags), the score of the best path that ends in each tag.
        history: (length - 1, batch, num_tags), or a tuple of length - 1 arrays (batch, num_tags). Entry (t, b, j) is
            the tag at position t of the best path with tag j at t + 1. Values after the end of a row are ignored.
        seq_length: (batch,), the number of real positions of each row, from 0 to length.

    Returns:
        A list of `batch` lists of int, each as long as its row.

    Raises:
        TypeError or ValueError: an argument has a wrong type, a wrong shape or invalid values.
    """
    score = as_array(score)                                        # (B, K)
    lengths = as_array(seq_length)                                # (B,)
    if score.ndim != 2:
        raise ValueError(f'score must be (batch, num_tags), got shape {score.shape}')
    batch, num_tags = score.shape
    if not num_tags:
        raise ValueError(f'score must have at least one tag, got shape {score.shape}')
    if isinstance(history, (tuple, list)):
        history = [as_array(step) for step in history]
        for position, step in enumerate(history):
            if step.shape != score.shape:
                raise ValueError(f'history[{position}] must be {score.shape} like score, got shape {step.shape}')
        history = np.stack(history) if history else np.zeros((0, batch, num_tags), int)
    else:
        history = as_array(history)
    if history.ndim != 3 or history.shape[1:] != score.shape:
        raise ValueError(f'history must be (length - 1, {batch}, {num_tags}) like score, got shape {history.shape}')
    if lengths.shape != (batch,):
        raise ValueError(f'seq_length must be ({batch},) like score[:, 0], got shape {lengths.shape}')
    check_integers('seq_length', lengths)
    check_integers('history', history)
    length = len(history) + 1
    check_lengths(lengths, length)
    if not batch:
        return []

    # One flat array a step, so that one `take` moves the whole batch back by one position.
    offsets = np.arange(batch) * num_tags                        # (B,)
    steps = history.astype(np.int64, copy=False) + offsets[:, None]             # (L-1, B, K)
    if lengths.min() < length:                                   # after the end of a row the tag stays the same
        after_end = np.arange(1, length)[:, None] >= lengths     # (L-1, B)
        np.copyto(steps, np.arange(batch * num_tags).reshape(batch, num_tags), where=after_end[:, :, None])
    steps = steps.reshape(length - 1, batch * num_tags)
    states = np.empty((length, batch), np.int64)
    states[:] = offsets
    state = states[-1] = score.argmax(1) + offsets               # (B,)
    with suppress(IndexError):                                   # an invalid tag, which is reported below
        for position in range(length - 2, -1, -1):
            state = states[position] = steps[position].take(state)
    paths = states - offsets                                     # (L, B)
    if paths.min() < 0 or paths.max() >= num_tags:
        position, row = np.argwhere((paths < 0) | (paths >= num_tags))[-1]      # the first one in the back-trace
        raise ValueError(f'history must contain tags from 0 to {num_tags - 1}, got {paths[position, row]} for row '
                         f'{row} at position {position}')
    return [path[:count] for path, count in zip(paths.T.tolist(), lengths.tolist())]
