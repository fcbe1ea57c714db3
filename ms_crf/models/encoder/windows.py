"""Sentences as subwords, in windows that an encoder can take, and in batches of fixed shapes."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from ms_crf.models.bucketing import spread, token_batch

import numpy as np

CHUNK = 2048               # sentences that are cut into subwords at a time


class Specials(NamedTuple):
    """Ids of what stands before and behind the subwords of a window."""

    before: np.ndarray
    behind: np.ndarray

    @property
    def size(self) -> int:
        """How many there are around each window."""
        return len(self.before) + len(self.behind)


def specials_of(tokenizer: Any) -> Specials:
    """Those that a tokenizer puts there; raises ValueError if it puts none."""
    # Some word that has subwords; a copy of the whole vocabulary takes 11 ms, and hardly any tokenizer needs it.
    for word in chain.from_iterable(words() for words in (lambda: ('a', '中'), tokenizer.get_vocab)):
        encoding = tokenizer.encode([word], is_pretokenized=True)
        real = np.flatnonzero([word_id is not None for word_id in encoding.word_ids])
        if len(real):
            ids = np.array(encoding.ids, np.int32)
            specials = Specials(ids[:real[0]], ids[real[-1] + 1:])
            if specials.size:
                return specials
            break
    raise ValueError('expected a tokenizer that puts special tokens such as [CLS] and [SEP] around a sentence, '
                     'by its "post_processor", got none')


class Subwords:
    """A corpus as subwords.

    Args:
        sentences: lists of tokens.
        tokenizer: of the library tokenizers, without what cuts or fills sentences.
        longest: subwords of a window at most, the special ones among them.
        tags: for each sentence what `Tags.gold` returned; None where there are no tags.
        specials: of the tokenizer, where they are known.

    Attributes:
        lengths: (sentences,) tokens of each.
        ids: of all subwords, one sentence after the other.
        words: the word that each subword belongs to, counted from 0 in each sentence.
        counts: (sentences,) subwords of each.
        specials: ids that stand around the subwords of a window.
        vectors: of all subwords (subwords, width), once they have been computed.
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
        self.word_counts = np.split(per_word, starts[1:])        # subwords of each word, by sentence
        self.sizes = np.maximum(lengths, counts)
        self.windows, self.windows_of = self._cut()
        #: subwords of every window, the special ones among them
        self.window_lengths = self.windows[:, 1] - self.windows[:, 0] + self.specials.size

    def packed_batch(self, rows: Sequence[Sequence[int]], shape: tuple[int, int]) -> tuple:
        """What `Encoder.packed` takes, and where each window begins.

        Args:
            rows: for each row the indices of its windows.
            shape: (rows, length).

        Returns:
            ids, windows and positions, all of the shape; and a list of (window, row, offset of its first real subword).
        """
        before, behind = self.specials
        ids, windows, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        begins = []
        for row, indices in enumerate(rows):
            offset = 0
            for count, index in enumerate(indices, 1):
                begin, end = self.windows[index, :2].tolist()
                to = offset + end - begin + self.specials.size
                ids[row, offset:to] = np.concatenate((before, self.ids[begin:end], behind))
                windows[row, offset:to], positions[row, offset:to] = count, np.arange(to - offset)
                begins.append((index, row, offset + len(before)))
                offset = to
        return ids, windows, positions, begins

    def _cut(self) -> tuple[np.ndarray, np.ndarray]:
        """(begin, end, first, last) of every window, and for each sentence the index of its first window, and the end.

        A window is what the encoder sees, begin to end; from it come the vectors of first to last, those words whose
        context is widest there. All four are indices into `ids`.
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
        """What an encoder takes: ids (rows, length) and lengths (rows,) of these windows, special tokens among them."""
        before, behind = self.specials
        begins = self.windows[indices, 0]
        ids, lengths = np.zeros((rows, length), np.int32), np.zeros(rows, np.int32)
        lengths[:len(indices)] = self.window_lengths[indices]
        row, position = spread(self.window_lengths[indices] - self.specials.size)
        ids[row, len(before) + position] = self.ids[begins[row] + position]
        ids[:len(indices), :len(before)] = before
        if len(behind):
            tail = (lengths[:len(indices)] - len(behind))[:, None] + np.arange(len(behind))
            ids[np.arange(len(indices))[:, None], tail] = behind
        return ids, lengths


def _encode(tokenizer: Any, sentences: Sequence[list]) -> list:
    """What a tokenizer makes of each sentence, without special tokens."""
    try:
        return tokenizer.encode_batch(sentences, is_pretokenized=True, add_special_tokens=False)
    except TypeError:                            # the library takes no half of a surrogate pair
        clean = [[token.encode('utf-8', 'replace').decode() for token in tokens] for tokens in sentences]
        return tokenizer.encode_batch(clean, is_pretokenized=True, add_special_tokens=False)


def pack(lengths: np.ndarray, room: int) -> list[list[int]]:
    """Puts windows into as few rows as a simple rule makes: the longest first, each where least room is left.

    Args:
        lengths: of the windows, at most `room`.
        room: of a row.

    Returns:
        For each row the indices of its windows.
    """
    rows: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(room + 1)]     # rows by what is left of their room
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
    """Windows of a long sentence: (windows, 4), begin and end of what is read, first and last of what comes from it.

    Windows overlap by half or more. A word belongs to the window whose edges are farthest from it, an end of the
    sentence counting as none: to that between the middles of whose overlaps its own middle is. A word so long that
    its window cuts it is shared out subword by subword.

    Args:
        words: (subwords,), the word of each subword.
        room: subwords of a window.
    """
    count = len(words)
    windows = windows_at_most(count, room)
    begins = np.round(np.linspace(0, count - room, windows)).astype(np.int64)
    borders = (begins[:-1] + room + begins[1:]) / 2
    edges = np.flatnonzero(np.diff(words, prepend=-1, append=-1))                  # 0 and `count` among them
    first, last = (np.repeat(part, np.diff(edges)) for part in (edges[:-1], edges[1:]))
    chosen = np.searchsorted(borders, (first + last) / 2)
    cut = (first < begins[chosen]) | (last > begins[chosen] + room)
    chosen[cut] = np.searchsorted(borders, np.flatnonzero(cut) + 0.5)
    firsts = np.searchsorted(chosen, np.arange(windows))
    return np.stack((begins, begins + room, firsts, np.append(firsts[1:], count)), 1)


def windows_at_most(count: int, room: int) -> int:
    """How many windows a sentence of so many subwords may need."""
    return 1 if count <= room else -(-(count - room) // max(room // 2, 1)) + 1


def window_shape(shape: tuple[int, int], room: int, specials: Specials) -> tuple[int, int]:
    """How many windows the sentences of a batch may need, and how long the windows are.

    Args:
        shape: (length, rows) of the batch.
        room: subwords of a window.
        specials: what stands around these.
    """
    length, rows = shape
    return rows * windows_at_most(length, room), min(length, room) + specials.size


class SubwordBatch(NamedTuple):
    """Arrays of one step; subwords and words are both padded to the shape's length.

    A network takes those after the first, following the vectors or ids of subwords.
    """

    subwords: np.ndarray       # (length, rows) indices into `Subwords.ids`, -1 where there is none
    words: np.ndarray          # (length, rows) word of each subword, `length` where there is none
    counts: np.ndarray         # (length, rows) subwords of each word
    lengths: np.ndarray        # (rows,)
    tags: np.ndarray           # (length, rows), or (length, rows, tags) bool

    def vectors(self, table: np.ndarray) -> np.ndarray:
        """(length, rows, width) of the vectors of all subwords, zeros where there is none."""
        vectors = np.zeros((*self.subwords.shape, table.shape[1]), np.float32)
        real = self.subwords >= 0
        vectors[real] = table[self.subwords[real]]
        return vectors


def subword_batch(encoded: Subwords, shape: tuple[int, int], indices: np.ndarray) -> SubwordBatch:
    """The batch of some sentences.

    Args:
        encoded: the corpus.
        shape: (length, rows) that they fit into.
        indices: of the sentences.
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
    """The windows of a batch's sentences, for an encoder in the same graph.

    Args:
        encoded: the corpus.
        batch: what `subword_batch` gave for these sentences.
        indices: of the sentences.
        windows, length: the shape that their windows fit into; None for the number and the length of these.

    Returns:
        ids (windows, length), lengths (windows,), and of the shape of `batch.subwords` the index of each subword in
        all windows, one after the other; 0 where there is none.
    """
    own = np.concatenate([np.arange(*encoded.windows_of[index:index + 2]) for index in indices])
    length = length or encoded.window_lengths[own].max(initial=1)
    ids, lengths = encoded.window_batch(own, windows or max(len(own), 1), length)
    begins, firsts, lasts = encoded.windows[own][:, [0, 2, 3]].T
    # Windows supply their subwords in the order of the batch: sentence by sentence, from first to last.
    row, position = spread(lasts - firsts)
    offsets = np.zeros(batch.subwords.shape, np.int32)
    offsets.T[batch.subwords.T >= 0] = (row * length + len(encoded.specials.before) + (firsts - begins)[row] + position)
    return ids, lengths, offsets
