"""Sentences as pieces of words, in windows that an encoder can take, and in batches of fixed shapes."""

from itertools import chain
from typing import NamedTuple

from ms_crf.models.bucketing import spread

import numpy as np

CHUNK = 2048               # sentences that are cut into pieces at a time


class Specials(NamedTuple):
    """Ids of what stands before and behind the pieces of a window."""

    before: np.ndarray
    behind: np.ndarray

    @property
    def count(self):
        return len(self.before) + len(self.behind)

    @classmethod
    def of(cls, tokenizer):
        """Those that a tokenizer puts there; None if it puts none."""
        # Some word that has pieces; a copy of the whole vocabulary takes 11 ms, and hardly any tokenizer needs it.
        for word in chain(('a', '中'), _words_of(tokenizer)):
            encoding = tokenizer.encode([word], is_pretokenized=True)
            real = np.flatnonzero([place is not None for place in encoding.word_ids])
            if len(real):
                ids = np.array(encoding.ids, np.int32)
                found = cls(ids[:real[0]], ids[real[-1] + 1:])
                return found if found.count else None
        return None


def _words_of(tokenizer):
    yield from tokenizer.get_vocab()


class Pieces:
    """A corpus as pieces of words.

    Args:
        sentences: lists of tokens.
        tokenizer: of the library tokenizers, without what cuts or fills sentences.
        longest: pieces of a window at most, the special ones among them.
        tags: for each sentence the ids of its tags; None where there are none.
        specials: `Specials.of` the tokenizer, where it is known.
    """

    def __init__(self, sentences, tokenizer, longest, tags=None, specials=None):
        self.specials = specials or Specials.of(tokenizer)
        self.room = longest - self.specials.count
        self.lengths = np.array([len(tokens) for tokens in sentences], np.int32)
        ids, words, counts = [], [], []
        for first in range(0, len(sentences), CHUNK):
            for encoding in _encode(tokenizer, sentences[first:first + CHUNK]):
                ids += encoding.ids
                words += encoding.word_ids
                counts.append(len(encoding.ids))
        #: ids of all pieces, one sentence after the other, and the word that each belongs to
        self.ids, self.words = np.array(ids, np.int32), np.array(words, np.int32)
        self.counts = np.array(counts, np.int64)         # pieces of each sentence
        self.firsts = np.cumsum(self.counts) - self.counts
        self.sizes = np.maximum(self.lengths, self.counts)
        self.tags = tags
        #: vectors of all pieces (pieces, width), where they have been computed
        self.vectors = None
        self.windows, self.windows_of = self._cut()
        #: pieces of every window, the special ones among them
        self.window_lengths = self.windows[:, 1] - self.windows[:, 0] + self.specials.count

    def packed_batch(self, rows, shape):
        """What `Encoder.packed` takes, and where each window begins.

        Args:
            rows: for each row the numbers of its windows.
            shape: (rows, length).

        Returns:
            ids, windows and positions, all of the shape; and a list of (window, row, place of its first real piece).
        """
        before, behind = self.specials
        ids, windows, positions = np.zeros(shape, np.int32), np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        begins = []
        for row, numbers in enumerate(rows):
            place = 0
            for count, number in enumerate(numbers, 1):
                begin, end = self.windows[number, :2].tolist()
                to = place + end - begin + self.specials.count
                ids[row, place:to] = np.concatenate((before, self.ids[begin:end], behind))
                windows[row, place:to], positions[row, place:to] = count, np.arange(to - place)
                begins.append((number, row, place + len(before)))
                place = to
        return ids, windows, positions, begins

    def _cut(self):
        """(begin, end, first, last) of every window, and for each sentence the number of its first window, and the end.

        A window is what the encoder sees, begin to end; from it come the vectors of first to last, those words whose
        context is widest there. Numbers are places in `ids`.
        """
        windows, starts = [], [0]
        for first, count in zip(self.firsts.tolist(), self.counts.tolist()):
            if 0 < count <= self.room:
                windows.append((first, first + count, first, first + count))
            elif count:
                windows += (window_ranges(self.words[first:first + count], self.room) + first).tolist()
            starts.append(len(windows))
        return np.array(windows, np.int64).reshape(-1, 4), np.array(starts, np.int64)

    def window_batch(self, numbers, rows, length):
        """What an encoder takes: ids (rows, length) and lengths (rows,) of these windows, special pieces among them."""
        before, behind = self.specials
        begins = self.windows[numbers, 0]
        ids, lengths = np.zeros((rows, length), np.int32), np.zeros(rows, np.int32)
        lengths[:len(numbers)] = self.window_lengths[numbers]
        row, position = spread(self.window_lengths[numbers] - self.specials.count)
        ids[row, len(before) + position] = self.ids[begins[row] + position]
        ids[:len(numbers), :len(before)] = before
        if len(behind):
            tail = (lengths[:len(numbers)] - len(behind))[:, None] + np.arange(len(behind))
            ids[np.arange(len(numbers))[:, None], tail] = behind
        return ids, lengths


def _encode(tokenizer, sentences):
    try:
        return tokenizer.encode_batch(sentences, is_pretokenized=True, add_special_tokens=False)
    except TypeError:                            # the library takes no half of a surrogate pair
        clean = [[token.encode('utf-8', 'replace').decode() for token in tokens] for tokens in sentences]
        return tokenizer.encode_batch(clean, is_pretokenized=True, add_special_tokens=False)


def pack(lengths, room):
    """Puts windows into as few rows as a simple rule makes: the longest first, each where least room is left.

    Args:
        lengths: of the windows, at most `room`.
        room: of a row.

    Returns:
        For each row the numbers of its windows.
    """
    rows, by_room = [], [[] for _ in range(room + 1)]            # rows by what is left of their room
    for number in np.argsort(-lengths, kind='stable').tolist():
        length = int(lengths[number])
        left = next((left for left in range(length, room + 1) if by_room[left]), None)
        if left is None:
            row, left = len(rows), room
            rows.append([])
        else:
            row = by_room[left].pop()
        rows[row].append(number)
        by_room[left - length].append(row)
    return rows


def window_ranges(words, room):
    """Windows of a long sentence: (windows, 4), begin, end, first and last as in `Pieces`.

    Windows overlap by half or more. A word belongs to the window whose edges are farthest from it, an end of the
    sentence counting as none: to that between the middles of whose overlaps its own middle is. A word so long that
    its window cuts it is shared out piece by piece.

    Args:
        words: (pieces,), the word of each piece.
        room: pieces of a window.
    """
    count = len(words)
    windows = windows_at_most(count, room)
    begins = np.round(np.linspace(0, count - room, windows)).astype(np.int64)
    borders = (begins[:-1] + room + begins[1:]) / 2
    edges = np.flatnonzero(np.diff(words)) + 1
    first = np.repeat(np.append(0, edges), np.diff(np.concatenate(([0], edges, [count]))))
    last = np.repeat(np.append(edges, count), np.diff(np.concatenate(([0], edges, [count]))))
    chosen = np.searchsorted(borders, (first + last) / 2)
    cut = (first < begins[chosen]) | (last > begins[chosen] + room)
    chosen[cut] = np.searchsorted(borders, np.flatnonzero(cut) + 0.5)
    firsts = np.searchsorted(chosen, np.arange(windows))
    return np.stack((begins, begins + room, firsts, np.append(firsts[1:], count)), 1)


def windows_at_most(count, room):
    """How many windows a sentence of so many pieces may need."""
    return 1 if count <= room else -(-(count - room) // max(room // 2, 1)) + 1


class PieceBatch(NamedTuple):
    """Arrays of one step; pieces and words are both padded to the shape's length."""

    pieces: np.ndarray         # (length, rows) places in `Pieces.ids`, -1 where there is none
    words: np.ndarray          # (length, rows) word of each piece, `length` where there is none
    counts: np.ndarray         # (length, rows) pieces of each word
    lengths: np.ndarray        # (rows,)
    tags: np.ndarray           # (length, rows)

    def vectors(self, table):
        """(length, rows, width) of the vectors of all pieces, zeros where there is none."""
        found = np.zeros((*self.pieces.shape, table.shape[1]), np.float32)
        real = self.pieces >= 0
        found[real] = table[self.pieces[real]]
        return found


def piece_batch(encoded, shape, numbers):
    """The `PieceBatch` of these sentences.

    Args:
        encoded: `Pieces`.
        shape: (length, rows) that they fit into.
        numbers: of the sentences.
    """
    length, rows = shape
    batch = PieceBatch(np.full((length, rows), -1, np.int64), np.full((length, rows), length, np.int32),
                       np.zeros((length, rows), np.int32), np.zeros(rows, np.int32), np.zeros((length, rows), np.int32))
    row, position = spread(encoded.counts[numbers])
    pieces = encoded.firsts[numbers][row] + position
    batch.pieces[position, row], batch.words[position, row] = pieces, encoded.words[pieces]
    batch.counts[:] = np.bincount(encoded.words[pieces] * rows + row, minlength=length * rows).reshape(length, rows)
    batch.lengths[:len(numbers)] = encoded.lengths[numbers]
    if encoded.tags is not None:
        row, position = spread(encoded.lengths[numbers])
        batch.tags[position, row] = np.concatenate([encoded.tags[number] for number in numbers])
    return batch


def window_arrays(encoded, batch, numbers, windows, length):
    """The windows of a batch's sentences, for an encoder in the same graph.

    Args:
        encoded: `Pieces`.
        batch: what `piece_batch` gave for these sentences.
        numbers: of the sentences.
        windows, length: the shape that their windows fit into.

    Returns:
        ids (windows, length), lengths (windows,), and (batch.pieces.shape) places of the pieces in all windows, one
        after the other; 0 where there is none.
    """
    own = np.concatenate([np.arange(*encoded.windows_of[number:number + 2]) for number in numbers])
    ids, lengths = encoded.window_batch(own, windows, length)
    begins, firsts, lasts = encoded.windows[own][:, [0, 2, 3]].T
    # Windows supply their pieces in the order of the batch: sentence by sentence, from first to last.
    row, position = spread(lasts - firsts)
    place = row * length + len(encoded.specials.before) + (firsts - begins)[row] + position
    places = np.zeros(batch.pieces.shape, np.int32)
    places.T[batch.pieces.T >= 0] = place
    return ids, lengths, places
