"""Sentences as subwords, in windows of the encoder's length, and in batches of fixed shapes."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from ms_crf.models.bucketing import spread, token_batch

import numpy as np

CHUNK = 2048               # sentences in a call of the tokenizer


class Specials(NamedTuple):
    """Ids of the special tokens before and after the subwords of a window."""

    before: np.ndarray
    after: np.ndarray

    @property
    def size(self) -> int:
        """The number of special tokens of a window."""
        return len(self.before) + len(self.after)


def specials_of(tokenizer: Any) -> Specials:
    """The special tokens that a tokenizer adds; raises ValueError if there are none."""
    # Find a word that has subwords. Copying the whole vocabulary takes 11 ms, and few tokenizers need it.
    for word in chain.from_iterable(words() for words in (lambda: ('a', '中'), tokenizer.get_vocab)):
        encoding = tokenizer.encode([word], is_pretokenized=True)
        real = np.flatnonzero([word_id is not None for word_id in encoding.word_ids])
        if len(real):
            ids = np.array(encoding.ids, np.int32)
            specials = Specials(ids[:real[0]], ids[real[-1] + 1:])
            if specials.size:
                return specials
            break
    raise ValueError('expected a tokenizer with a "post_processor" that adds special tokens such as [CLS] and [SEP] '
                     'to a sentence, got no special tokens')


class Subwords:
    """A corpus as subwords.

    Args:
        sentences: lists of tokens.
        tokenizer: a tokenizer of the library tokenizers, without truncation and padding.
        longest: largest number of subwords of a window, including special tokens.
        tags: the result of `Tags.gold`; None for sentences without gold tags.
        specials: special tokens of the tokenizer; None to compute them.

    Attributes:
        lengths: (sentences,) number of tokens.
        ids: ids of the subwords of all sentences, concatenated.
        words: for each subword the index of its word in the sentence.
        counts: (sentences,) number of subwords.
        specials: ids of the special tokens of a window.
        room: largest number of subwords of a window, without special tokens.
        vectors: vectors of all subwords (subwords, width), or None before they are computed.
        firsts: (sentences,) index of the first subword of each sentence in `ids`.
        word_counts: for each sentence the number of subwords of each word.
        sizes: (sentences,) the larger of the numbers of tokens and subwords.
        windows, windows_of: see `_cut`.
        window_lengths: (windows,) number of subwords of each window, including special tokens.
    """

    def __init__(self, sentences: Sequence[list[str]], tokenizer: Any, longest: int,
                 tags: list[np.ndarray] | None = None, specials: Specials | None = None) -> None:
        pieces: list[int] = []
        words: list[int] = []
        sizes: list[int] = []
        for first in range(0, len(sentences), CHUNK):
            for encoding in _encode(tokenizer, sentences[first:first + CHUNK]):
                pieces += encoding.ids
                words += encoding.word_ids
                sizes.append(len(encoding.ids))
        self.ids, self.words = np.array(pieces, np.int32), np.array(words, np.int32)
        self.lengths = lengths = np.array(list(map(len, sentences)), np.int32)
        self.counts = counts = np.array(sizes, np.int64)
        self.tags, self.specials = tags, specials or specials_of(tokenizer)
        self.room = longest - self.specials.size
        self.vectors: np.ndarray | None = None
        self.firsts = np.cumsum(counts) - counts
        starts = np.cumsum(lengths) - lengths
        per_word = np.bincount(np.repeat(starts, counts) + self.words, minlength=lengths.sum())
        self.word_counts = np.split(per_word, starts[1:])
        self.sizes = np.maximum(lengths, counts)
        self.windows, self.windows_of = self._cut()
        self.window_lengths = self.windows[:, 1] - self.windows[:, 0] + self.specials.size

    def packed_batch(self, rows: Sequence[Sequence[int]], shape: tuple[int, int]) -> tuple:
        """The input of `Encoder.packed`, and the beginnings of the windows.

        Args:
            rows: for each row the indices of its windows.
            shape: (rows, length).

        Returns:
            ids, windows and positions, all of this shape; and a list of tuples (window, row, offset of its first
            subword that is not special).
        """
        before, after = self.specials
        ids, windows, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        begins = []
        for row, indices in enumerate(rows):
            offset = 0
            for count, index in enumerate(indices, 1):
                begin, end = self.windows[index, :2].tolist()
                next_offset = offset + end - begin + self.specials.size
                ids[row, offset:next_offset] = np.concatenate((before, self.ids[begin:end], after))
                windows[row, offset:next_offset] = count
                positions[row, offset:next_offset] = np.arange(next_offset - offset)
                begins.append((index, row, offset + len(before)))
                offset = next_offset
        return ids, windows, positions, begins

    def _cut(self) -> tuple[np.ndarray, np.ndarray]:
        """Cuts sentences into windows.

        Returns:
            (windows, 4): begin, end, first and last of each window, all indices into `ids`. The encoder reads the
            subwords from begin to end. The vectors from first to last are used: the words with the widest context.
            (sentences + 1,): for each sentence the index of its first window; then the number of windows.
        """
        windows: list = []
        starts = [0]
        for first, count in zip(self.firsts.tolist(), self.counts.tolist()):
            if 0 < count <= self.room:
                windows.append((first, first + count, first, first + count))
            elif count:
                windows += (window_ranges(self.words[first:first + count], self.room) + first).tolist()
            starts.append(len(windows))
        return np.array(windows, np.int64).reshape(-1, 4), np.array(starts, np.int64)

    def window_batch(self, indices: np.ndarray, rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The input of an encoder: ids (rows, length) and lengths (rows,) of some windows, including special tokens."""
        before, after = self.specials
        begins = self.windows[indices, 0]
        ids, lengths = np.zeros((rows, length), np.int32), np.zeros(rows, np.int32)
        lengths[:len(indices)] = self.window_lengths[indices]
        row, position = spread(self.window_lengths[indices] - self.specials.size)
        ids[row, len(before) + position] = self.ids[begins[row] + position]
        ids[:len(indices), :len(before)] = before
        if len(after):
            tail = (lengths[:len(indices)] - len(after))[:, None] + np.arange(len(after))
            ids[np.arange(len(indices))[:, None], tail] = after
        return ids, lengths


def _encode(tokenizer: Any, sentences: Sequence[list]) -> list:
    """The subwords of sentences, without special tokens."""
    try:
        return tokenizer.encode_batch(sentences, is_pretokenized=True, add_special_tokens=False)
    except TypeError:                            # the library rejects half of a surrogate pair
        clean = [[token.encode('utf-8', 'replace').decode() for token in tokens] for tokens in sentences]
        return tokenizer.encode_batch(clean, is_pretokenized=True, add_special_tokens=False)


def pack(lengths: np.ndarray, room: int) -> list[list[int]]:
    """Packs windows into few rows: longest windows first, each into the row with the least sufficient room.

    Args:
        lengths: lengths of the windows, at most `room`.
        room: length of a row.

    Returns:
        For each row the indices of its windows.
    """
    rows: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(room + 1)]     # indices of rows, by their remaining room
    for index in np.argsort(-lengths, kind='stable').tolist():
        length = int(lengths[index])
        left = next((left for left in range(length, room + 1) if by_room[left]), None)
        if left is None:
            row, left = len(rows), room
            rows.append([])
        else:
            row = by_room[left].pop()
        rows[row].append(index)
        by_room[left - length].append(row)
    return rows


def window_ranges(words: np.ndarray, room: int) -> np.ndarray:
    """The windows of a long sentence: (windows, 4) begin, end, first and last; see `Subwords._cut`.

    Windows overlap by half or more. The vectors of a word come from the window in which the word has the widest
    context. The ends of the sentence do not limit the context. A word that no window contains as a whole is divided
    between windows, subword by subword.

    Args:
        words: (subwords,) the word of each subword.
        room: number of subwords of a window.
    """
    count = len(words)
    windows = windows_at_most(count, room)
    begins = np.round(np.linspace(0, count - room, windows)).astype(np.int64)
    boundaries = (begins[:-1] + room + begins[1:]) / 2
    edges = np.flatnonzero(np.diff(words, prepend=-1, append=-1))                  # includes 0 and `count`
    first, last = (np.repeat(part, np.diff(edges)) for part in (edges[:-1], edges[1:]))
    chosen = np.searchsorted(boundaries, (first + last) / 2)
    cut = (first < begins[chosen]) | (last > begins[chosen] + room)
    chosen[cut] = np.searchsorted(boundaries, np.flatnonzero(cut) + 0.5)
    firsts = np.searchsorted(chosen, np.arange(windows))
    return np.stack((begins, begins + room, firsts, np.append(firsts[1:], count)), 1)


def windows_at_most(count: int, room: int) -> int:
    """The largest number of windows of a sentence of `count` subwords."""
    return 1 if count <= room else -(-(count - room) // max(room // 2, 1)) + 1


def window_shape(shape: tuple[int, int], room: int, specials: Specials) -> tuple[int, int]:
    """The largest number of windows of the sentences of a batch, and the length of a window.

    Args:
        shape: (length, rows) of the batch.
        room: number of subwords of a window, without special tokens.
        specials: special tokens of a window.
    """
    length, rows = shape
    return rows * windows_at_most(length, room), min(length, room) + specials.size


class SubwordBatch(NamedTuple):
    """The arrays of a step; subwords and words are both padded to the length of the shape.

    The arguments of the network are the vectors or ids of the subwords, then the fields from `words` on.
    """

    subwords: np.ndarray       # (length, rows) indices into `Subwords.ids`, -1 for padding
    words: np.ndarray          # (length, rows) word of each subword, `length` for padding
    counts: np.ndarray         # (length, rows) number of subwords of each word
    lengths: np.ndarray        # (rows,) number of words
    tags: np.ndarray           # (length, rows), or (length, rows, tags) bool

    def vectors(self, table: np.ndarray) -> np.ndarray:
        """The vectors of the batch's subwords (length, rows, width), zeros for padding; `table` has all vectors."""
        vectors = np.zeros((*self.subwords.shape, table.shape[1]), np.float32)
        real = self.subwords >= 0
        vectors[real] = table[self.subwords[real]]
        return vectors


def subword_batch(encoded: Subwords, shape: tuple[int, int], indices: np.ndarray) -> SubwordBatch:
    """The batch of some sentences.

    Args:
        encoded: the corpus.
        shape: (length, rows) of the batch.
        indices: indices of the sentences.
    """
    length, _ = shape
    batch = SubwordBatch(np.full(shape, -1, np.int64), np.full(shape, length, np.int32),
                         *token_batch(encoded, encoded.word_counts, shape, indices))
    row, position = spread(encoded.counts[indices])
    subwords = encoded.firsts[indices][row] + position
    batch.subwords[position, row], batch.words[position, row] = subwords, encoded.words[subwords]
    return batch


def window_arrays(encoded: Subwords, batch: SubwordBatch, indices: np.ndarray, windows: int | None = None,
                  length: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The windows of the sentences of a batch, for a graph that contains the encoder.

    Args:
        encoded: the corpus.
        batch: the result of `subword_batch` for these sentences.
        indices: indices of the sentences.
        windows, length: shape of the windows; None for the number and the length that these sentences need.

    Returns:
        ids (windows, length), lengths (windows,), and the index of each subword in the concatenated windows, with the
        shape of `batch.subwords`; 0 for padding.
    """
    chosen = np.concatenate([np.arange(*encoded.windows_of[index:index + 2]) for index in indices])
    length = length or encoded.window_lengths[chosen].max(initial=1)
    ids, lengths = encoded.window_batch(chosen, windows or max(len(chosen), 1), length)
    begins, firsts, lasts = encoded.windows[chosen][:, [0, 2, 3]].T
    # The subwords of the windows, from first to last, are in the same order as the subwords of the batch.
    row, position = spread(lasts - firsts)
    offsets = np.zeros(batch.subwords.shape, np.int32)
    offsets.T[batch.subwords.T >= 0] = (row * length + len(encoded.specials.before) + (firsts - begins)[row] + position)
    return ids, lengths, offsets
