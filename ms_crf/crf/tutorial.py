"""The functions of the MindSpore tutorial on LSTM+CRF, with the same names and arguments, length first.

Shapes: L length, B batch, K tags. A mask (L, B) is 1 on real positions, which are the first positions of each row. A
mask with holes raises ValueError in PyNative mode; graphs cannot check it and return nan for the row. -inf, +inf and
nan have the same effect as in `CRF`.
"""

from ms_crf.crf import tensors
from ms_crf.crf.backends import Backends
from ms_crf.crf.inference import count_transitions, mark_tags, path_score
from ms_crf.crf.inputs import describe, has_values, in_range
from ms_crf.crf.mindspore_fixes import check_not_traced, in_float32
from ms_crf.crf.potentials import Scores, constrained
from ms_crf.crf.tensors import forbid, ones_like
from ms_crf.crf.validation import Described, check_count, check_function, check_lengths_argument, check_mask
from ms_crf.crf.viterbi import History

import mindspore as ms
from mindspore import Tensor, ops

_backends = Backends(batch_first=False)


@ops.constexpr(check=False)
def _check(names: tuple, arguments: tuple) -> None:
    """Raises TypeError or ValueError unless types and shapes of the arguments fit; RuntimeError if `ms.jit` traces."""
    check_not_traced()
    check_function(**dict(zip(names, arguments)))


_check_mask_values = ops.constexpr(check=False)(check_mask)


@ops.constexpr(check=False)
def _check_lengths(seq_length: Described, max_length: int) -> None:
    check_lengths_argument(seq_length)
    check_count('max_length', max_length)


def sequence_mask(seq_length: Tensor, max_length: int, batch_first: bool = False) -> Tensor:
    """Returns a mask in int64, 1 on real positions and 0 on padding.

    Args:
        seq_length: number of real positions of each row, (batch,) integers. They are clipped to 0 to max_length.
        max_length: padded length, an int.
        batch_first: layout of the result.

    Returns:
        (max_length, batch), or (batch, max_length) with batch_first.

    Raises:
        TypeError or ValueError: an argument has a wrong type or shape.
    """
    _check_lengths(describe('seq_length', seq_length), max_length)
    mask = tensors.real(in_range(seq_length, 0, max_length), max_length).astype(ms.int64)
    return tensors.turned(mask, batch_first)


def _from_mask(emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Prepared emissions, lengths and a mark for masks with holes.

    Returns:
        Emissions (L, B, K) in float32, 0 on padding; lengths (B,) int32; and void (B,), nan for a mask with holes,
        otherwise 0.
    """
    if has_values(mask):
        _check_mask_values(mask)
    mask = mask.astype(ms.bool_)
    lengths = mask.astype(ms.int32).sum(0).astype(ms.int32)
    holes = tensors.nan_where(ops.not_equal(mask, tensors.real(lengths, mask.shape[0]))).sum(0)
    return tensors.clear_padding(forbid(emissions.astype(ms.float32)), lengths), lengths, holes


def _prepare(emissions: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor, end_trans: Tensor,
             names: tuple[str, ...] = (), others: tuple = ()) -> tuple[Tensor, Tensor, Tensor, Scores]:
    """Checks all arguments; returns the results of `_from_mask`, and the scores in float32.

    Args:
        names, others: names, and types with shapes, of further arguments to check.
    """
    _check(('emissions', *names, 'mask', 'trans', 'start_trans', 'end_trans'),
           (describe('emissions', emissions), *others, describe('mask', mask), describe('trans', trans),
            describe('start_trans', start_trans), describe('end_trans', end_trans)))
    scores = trans.astype(ms.float32), start_trans.astype(ms.float32), end_trans.astype(ms.float32)
    return (*_from_mask(emissions, mask), scores)


@in_float32
def compute_score(emissions: Tensor, tags: Tensor, seq_ends: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor,
                  end_trans: Tensor) -> Tensor:
    """Returns the score (batch,) of the given tags: the sum of emissions, transitions, start and end scores.

    Args:
        emissions: (length, batch, num_tags).
        tags: (length, batch) integers. A tag that is not between 0 and num_tags - 1 makes the score of the row nan.
        seq_ends: (batch,), index of the last real position of each row. It is not used, because the mask has the same
            information.
        mask: (length, batch), 1 on real positions, 0 on padding.
        trans, start_trans, end_trans: (num_tags, num_tags), (num_tags,), (num_tags,); entry (i, j) scores tag j after
        tag
            i.

    Returns:
        (batch,) float32. Each forbidden tag or transition costs about 10,000. Rows of length 0 have the score 0.

    Raises:
        TypeError or ValueError: an argument has a wrong type or shape; in PyNative mode also a mask with holes.
    """
    others = describe('tags', tags), describe('seq_ends', seq_ends)
    emissions, lengths, void, scores = _prepare(emissions, mask, trans, start_trans, end_trans, ('tags', 'seq_ends'),
                                                others)
    num_tags = emissions.shape[-1]
    tags, live = in_range(tags, -1, num_tags), tensors.real(lengths, tags.shape[0])
    impossible = ops.logical_and(live, ops.logical_or(tags < 0, tags >= num_tags))
    void = void + tensors.nan_where(impossible).sum(0)
    tags = ops.select(ops.logical_and(live, ops.logical_not(impossible)), tags, -ones_like(tags))
    marked = mark_tags(tags, num_tags)                       # (L, B, K)
    counts = count_transitions(tags, lengths, num_tags)      # (B, K, K)
    return path_score(emissions, lengths, marked, counts, *constrained(*scores, None)) + void


@in_float32
def compute_normalizer(emissions: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor,
                       end_trans: Tensor) -> Tensor:
    """Returns the log partition function (batch,): the log of the sum of exp(score) over all paths.

    Args:
        emissions: (length, batch, num_tags).
        mask: (length, batch), 1 on real positions, 0 on padding.
        trans, start_trans, end_trans: (num_tags, num_tags), (num_tags,), (num_tags,); entry (i, j) scores tag j after
        tag
            i.

    Returns:
        (batch,) float32; 0 for rows of length 0.

    Raises:
        TypeError or ValueError: an argument has a wrong type or shape; in PyNative mode also a mask with holes.
    """
    emissions, lengths, void, scores = _prepare(emissions, mask, trans, start_trans, end_trans)
    return _backends.backend_for().normalizer(scores, emissions, lengths, None, None) + void


@in_float32
def viterbi_decode(emissions: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor,
                   end_trans: Tensor) -> tuple[Tensor, History]:
    """Returns the arguments of `post_decode`: for each tag the score of the best path to it, and the history.

    Args:
        emissions: (length, batch, num_tags).
        mask: (length, batch), 1 on real positions, 0 on padding.
        trans, start_trans, end_trans: (num_tags, num_tags), (num_tags,), (num_tags,); entry (i, j) scores tag j after
        tag
            i.

    Returns:
        Scores (batch, num_tags), and history (length - 1, batch, num_tags), or an empty tuple if length is 1.

    Raises:
        TypeError or ValueError: an argument has a wrong type or shape; in PyNative mode also a mask with holes.
    """
    emissions, lengths, void, scores = _prepare(emissions, mask, trans, start_trans, end_trans)
    score, history = _backends.backend_for().viterbi(scores, emissions, lengths, None)
    return score + void.expand_dims(-1), history
