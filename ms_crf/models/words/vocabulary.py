"""Ids of words, characters and tags."""

from collections import Counter

from ms_crf.errors import brief
from ms_crf.models.labels import Tags, check_strings, mostly_characters
from ms_crf.models.words.vectors import form_in

import numpy as np

PADDING, UNKNOWN = 0, 1
FIRST = 2                                                # id of the first word or character of a list
MOST_CHARACTERS = 1000                                   # of a word that are read



def _codes(text):
    return np.frombuffer(text.encode('utf-32-le', 'surrogatepass'), np.uint32)


class Vocabulary(Tags):
    """What a model over word vectors and characters can read and write; the ids of its tensors.

    Args:
        words, characters: strings, their ids counted from 2; 0 is padding, 1 what is not known.
        tags: strings, their ids counted from 0.
        char_length: how many characters of a word are read: of a longer one the first and the last half.
    """

    def __init__(self, words, characters, tags, char_length):
        self.words, self.characters, self.char_length = list(words), list(characters), char_length
        super().__init__(tags, mostly_characters(self.words))
        self._word_ids = {word: number for number, word in enumerate(self.words, FIRST)}
        codes = _codes(''.join(self.characters)).astype(np.int64)
        order = np.argsort(codes)
        self._codes, self._ids = np.append(codes[order], 1 << 32), np.append(order + FIRST, UNKNOWN)

    @classmethod
    def of(cls, training, others, tags, vectors, char_length):
        """The vocabulary of corpora.

        Args:
            training: token lists; all their words are known.
            others: token lists; their words are known where there are vectors for them.
            tags: all tags.
            vectors: what forms have vectors; may be empty.
            char_length: as above.
        """
        counts = Counter(token for tokens in training for token in tokens)
        words = dict.fromkeys(form_in(vectors, word) or word for word in counts)
        words.update(dict.fromkeys(form for tokens in others for token in tokens
                                   if (form := form_in(vectors, token)) is not None))
        characters = dict.fromkeys(sorted({character for word in counts for character in word}))
        return cls(words, characters, tags, char_length)

    def word_id(self, word):
        form = form_in(self._word_ids, word)
        return UNKNOWN if form is None else self._word_ids[form]

    def spellings(self, words):
        """Ids of the characters that are read: (words, char_length), PADDING behind a word's end."""
        head = (self.char_length + 1) // 2
        tail = self.char_length - head
        read = [word if len(word) <= self.char_length else word[:head] + word[len(word) - tail:] for word in words]
        found = np.full((len(words), self.char_length), PADDING, np.int32)
        lengths = np.array([len(word) for word in read], np.int64)
        codes = _codes(''.join(read))
        places = np.searchsorted(self._codes, codes)             # behind the last there is one that is no character
        ids = np.where(self._codes[places] == codes, self._ids[places], UNKNOWN)
        found[np.arange(self.char_length) < lengths[:, None]] = ids
        return found

    @property
    def num_words(self):
        return FIRST + len(self.words)

    @property
    def num_characters(self):
        return FIRST + len(self.characters)

    def initial_rows(self, vectors, width, generator):
        """(num_words, width): vectors where there are some, random numbers of the same spread elsewhere."""
        spread = np.std(list(vectors.values())) if vectors else 1 / width ** 0.5
        rows = generator.normal(0, spread, (self.num_words, width)).astype(np.float32)
        rows[PADDING] = 0
        for word, number in self._word_ids.items():
            if word in vectors:
                rows[number] = vectors[word]
        return rows

    def to_json(self):
        return {'words': self.words, 'characters': self.characters, 'tags': self.tags, 'char_length': self.char_length}

    @classmethod
    def from_json(cls, record):
        """Raises ValueError if the record is not what `to_json` gave."""
        lists = ('words', 'characters', 'tags')
        if not isinstance(record, dict) or sorted(record) != sorted([*lists, 'char_length']):
            raise ValueError('expected the keys words, characters, tags and char_length')
        check_strings(record, lists)
        if any(len(item) != 1 for item in record['characters']):
            raise ValueError('expected characters to be single ones')
        length = record['char_length']
        if type(length) is not int or not 0 < length <= MOST_CHARACTERS:
            raise ValueError(f'expected char_length to be from 1 to {MOST_CHARACTERS}, got {brief(length)}')
        return cls(record['words'], record['characters'], record['tags'], record['char_length'])
