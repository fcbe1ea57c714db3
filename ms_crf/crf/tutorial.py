"""The functions of the MindSpore tutorial on LSTM+CRF under their names and argument order, length first.

Shapes: L length, B batch, K tags. A mask (L, B) is 1 on real positions, which are the first of each row. One with
holes is refused in PyNative mode; a graph can't look at it, and answers nan for that row. -inf, +inf and nan have the
meaning that they have in `CRF`.
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
    check_not_traced()
    check_function(**dict(zip(names, arguments)))


_check_mask_values = ops.constexpr(check=False)(check_mask)


@ops.constexpr(check=False)
def _check_lengths(seq_length: Described, max_length: int) -> None:
    check_lengths_argument(seq_length)
    check_count('max_length', max_length)


def sequence_mask(seq_length: Tensor, max_length: int, batch_first: bool = False) -> Tensor:
    """1 on real positions, 0 on padding, in int64: (max_length, batch), or (batch, max_length) with batch_first.

    Args:
        seq_length: (batch,) integers; one below 0 counts as 0, one above max_length as that.
        max_length: int, the padded length.
        batch_first: layout of the result.
    """
    _check_lengths(describe('seq_length', seq_length), max_length)
    mask = tensors.real(in_range(seq_length, 0, max_length), max_length).astype(ms.int64)
    return tensors.turned(mask, batch_first)


def _from_mask(emissions: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Emissions (L, B, K) in float32 with cleared padding, lengths (B,) int32, void (B,): nan for a mask with holes."""
    if has_values(mask):
        _check_mask_values(mask)
    mask = mask.astype(ms.bool_)
    lengths = mask.astype(ms.int32).sum(0).astype(ms.int32)
    holes = tensors.nan_where(ops.not_equal(mask, tensors.real(lengths, mask.shape[0]))).sum(0)
    return tensors.clear_padding(forbid(emissions.astype(ms.float32)), lengths), lengths, holes


def _prepare(emissions: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor, end_trans: Tensor,
             names: tuple[str, ...] = (), others: tuple = ()) -> tuple[Tensor, Tensor, Tensor, Scores]:
    """What `_from_mask` returns, and scores in float32; after all arguments, others of these names too, are checked."""
    _check(('emissions', *names, 'mask', 'trans', 'start_trans', 'end_trans'),
           (describe('emissions', emissions), *others, describe('mask', mask), describe('trans', trans),
            describe('start_trans', start_trans), describe('end_trans', end_trans)))
    scores = trans.astype(ms.float32), start_trans.astype(ms.float32), end_trans.astype(ms.float32)
    return (*_from_mask(emissions, mask), scores)


@in_float32
def compute_score(emissions: Tensor, tags: Tensor, seq_ends: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor,
                  end_trans: Tensor) -> Tensor:
    """Score (B,) of the given tags, about 10,000 less for each that is forbidden; 0 for rows of length 0.

    Args:
        emissions: (L, B, K).
        tags: (L, B), all known: 0 to K - 1, else the row's score is nan.
        seq_ends: (B,), the last real position of each row; the mask says the same.
        mask: (L, B).
        trans, start_trans, end_trans: (K, K), (K,), (K,); entry (i, j) scores tag j after tag i.
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
    """Log (B,) of the sum of exp(score) over all paths; 0 for rows of length 0.

    Args:
        emissions: (L, B, K).
        mask: (L, B).
        trans, start_trans, end_trans: (K, K), (K,), (K,); entry (i, j) scores tag j after tag i.
    """
    emissions, lengths, void, scores = _prepare(emissions, mask, trans, start_trans, end_trans)
    return _backends.chosen().normalizer(scores, emissions, lengths, None, None) + void


@in_float32
def viterbi_decode(emissions: Tensor, mask: Tensor, trans: Tensor, start_trans: Tensor,
                   end_trans: Tensor) -> tuple[Tensor, History]:
    """Score (B, K) of the best path ending in each tag, and history (L - 1, B, K), as `post_decode` takes them.

    Args:
        emissions: (L, B, K).
        mask: (L, B).
        trans, start_trans, end_trans: (K, K), (K,), (K,); entry (i, j) scores tag j after tag i.
    """
    emissions, lengths, void, scores = _prepare(emissions, mask, trans, start_trans, end_trans)
    score, history = _backends.chosen().viterbi(scores, emissions, lengths, None)
    return score + void.expand_dims(-1), history
