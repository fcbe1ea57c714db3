"""The functions of the MindSpore tutorial on LSTM+CRF under their names and argument order, length first.

Shapes: L length, B batch, K tags. A mask (L, B) is 1 on real positions, which are the first of each row.
"""

from ms_crf.crf import masks
from ms_crf.crf.gradients import LogNormalizer, value_of
from ms_crf.crf.inference import count_transitions, mark_tags, path_score
from ms_crf.crf.inputs import describe
from ms_crf.crf.mindspore_fixes import in_float32
from ms_crf.crf.scores import ones_like
from ms_crf.crf.validation import check_function, check_lengths_argument
from ms_crf.crf.viterbi import viterbi

import mindspore as ms
from mindspore import ops

_SCORES = ('trans', 'start_trans', 'end_trans')
_log_normalizer = LogNormalizer()


@ops.constexpr(check=False)
def _check(names, arguments):
    given = {name: (str(kind), shape) for name, (kind, shape) in zip(names, arguments)}
    check_function(**given)


@ops.constexpr(check=False)
def _check_mask(kind, shape, max_length):
    check_lengths_argument(str(kind), shape)
    if isinstance(max_length, bool) or not isinstance(max_length, int):
        raise TypeError(f'max_length must be an int, got {type(max_length).__name__}')
    if max_length < 1:
        raise ValueError(f'max_length must be at least 1, got {max_length}')


def sequence_mask(seq_length, max_length, batch_first=False):
    """1 on real positions, 0 on padding, in int64: (max_length, batch), or (batch, max_length) with batch_first.

    Args:
        seq_length: (batch,) integers.
        max_length: int, the padded length.
        batch_first: layout of the result.
    """
    kind, shape = describe('seq_length', seq_length)
    _check_mask(kind, shape, max_length)
    mask = masks.real(seq_length, max_length).astype(ms.int64)
    if batch_first:
        mask = ops.transpose(mask, (1, 0))
    return mask


def _from_mask(emissions, mask):
    """Emissions (L, B, K) in float32 with cleared padding, lengths (B,) int32."""
    lengths = mask.astype(ms.int32).sum(0).astype(ms.int32)
    return masks.clear_padding(emissions.astype(ms.float32), lengths), lengths


def _describe_scores(trans, start_trans, end_trans):
    return describe('trans', trans), describe('start_trans', start_trans), describe('end_trans', end_trans)


def _in_float32(trans, start_trans, end_trans):
    return trans.astype(ms.float32), start_trans.astype(ms.float32), end_trans.astype(ms.float32)


def _check_and_prepare(emissions, mask, trans, start_trans, end_trans):
    _check(('emissions', 'mask', *_SCORES),
           (describe('emissions', emissions), describe('mask', mask),
            *_describe_scores(trans, start_trans, end_trans)))
    return _from_mask(emissions, mask)


@in_float32
def compute_score(emissions, tags, seq_ends, mask, trans, start_trans, end_trans):
    """Score (B,) of the given tags; 0 for rows of length 0.

    Args:
        emissions: (L, B, K).
        tags: (L, B), all known.
        seq_ends: (B,), the last real position of each row; the mask says the same.
        mask: (L, B).
        trans, start_trans, end_trans: (K, K), (K,), (K,); entry (i, j) scores tag j after tag i.
    """
    _check(('emissions', 'tags', 'seq_ends', 'mask', *_SCORES),
           (describe('emissions', emissions), describe('tags', tags), describe('seq_ends', seq_ends),
            describe('mask', mask), *_describe_scores(trans, start_trans, end_trans)))
    emissions, lengths = _from_mask(emissions, mask)
    tags, num_tags = tags.astype(ms.int32), emissions.shape[-1]
    tags = ops.select(masks.real(lengths, tags.shape[0]), tags, -ones_like(tags))
    marked = mark_tags(tags, num_tags)                       # (L, B, K)
    counts = count_transitions(tags, lengths, num_tags)      # (B, K, K)
    return path_score(emissions, lengths, marked, counts, *_in_float32(trans, start_trans, end_trans))


@in_float32
def compute_normalizer(emissions, mask, trans, start_trans, end_trans):
    """Log (B,) of the sum of exp(score) over all paths; 0 for rows of length 0.

    Args:
        emissions: (L, B, K).
        mask: (L, B).
        trans, start_trans, end_trans: (K, K), (K,), (K,); entry (i, j) scores tag j after tag i.
    """
    emissions, lengths = _check_and_prepare(emissions, mask, trans, start_trans, end_trans)
    return value_of(_log_normalizer(emissions, lengths, *_in_float32(trans, start_trans, end_trans)))


@in_float32
def viterbi_decode(emissions, mask, trans, start_trans, end_trans):
    """Score (B, K) of the best path ending in each tag, and history (L - 1, B, K), as `post_decode` takes them.

    Args:
        emissions: (L, B, K).
        mask: (L, B).
        trans, start_trans, end_trans: (K, K), (K,), (K,); entry (i, j) scores tag j after tag i.
    """
    emissions, lengths = _check_and_prepare(emissions, mask, trans, start_trans, end_trans)
    return viterbi(emissions, lengths, *_in_float32(trans, start_trans, end_trans))
