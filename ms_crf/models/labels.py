"""The tags of a model and their ids, and whether it reads single characters."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, TypeVar

from ms_crf.base.fields import Fault, checked, distinct_strings, load_record
from ms_crf.formats.lines import half_of_pair
from ms_crf.text.schemes import OPEN, completions

import numpy as np

T = TypeVar('T', bound='Tags')


def tag_names(tags: list[str]) -> Fault | None:
    """What is wrong with the tags of a record, or None."""
    if (odd := half_of_pair(tags)) is not None:
        return 'Unicode', f'half of a pair of surrogates in {odd!a}'
    return distinct_strings(tags) if tags else ('a list of at least one', 'none')


@dataclass(kw_only=True)
class TagsRecord:
    """What vocab.json holds of `Tags`."""

    tags: list[str] = checked(must=tag_names)
    of_characters: bool


class Tags:
    """The tags of a model, their ids counted from 0.

    Args:
        tags: strings.
        of_characters: whether it was trained on single characters.

    Attributes:
        record: of the class, a dataclass of what vocab.json holds, by the names of its arguments and attributes.
    """

    record: ClassVar[type] = TagsRecord

    def __init__(self, tags: Iterable[str], of_characters: bool) -> None:
        self.tags, self.of_characters = list(tags), of_characters
        self._tag_ids = {tag: index for index, tag in enumerate(self.tags)}

    def tag_ids(self, tags: Iterable[str]) -> list[int]:
        """The id of each tag, all of which are known."""
        return [self._tag_ids[tag] for tag in tags]

    def gold(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """What a model learns of the tags of sentences, as its head takes them.

        Args:
            sentences: lists of tags, of which some may be open, see `ms_crf.text.partial`.

        Returns:
            For each sentence the ids of its tags (tokens,) int32, -1 where any tag may stand. If there are tokens of
            which some tags are in question, and others not, then (tokens, tags) bool of all sentences: which may stand.
        """
        ids = {**self._tag_ids, OPEN: -1}
        distinct = dict.fromkeys(tag for tags in sentences for tag in tags)
        if all(tag in ids for tag in distinct):
            return [np.array([ids[tag] for tag in tags], np.int32) for tags in sentences]
        return self.sets(sentences)

    def sets(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Which tags the tokens of sentences may have: for each sentence (tokens, tags) bool."""
        rows = {}
        for tag in dict.fromkeys(tag for tags in sentences for tag in tags):
            rows[tag] = np.zeros(len(self.tags), bool)
            rows[tag][[self._tag_ids[other] for other in completions(tag, self.tags)]] = True
        return [np.array([rows[tag] for tag in tags]).reshape(len(tags), len(self.tags)) for tags in sentences]

    def to_json(self) -> dict:
        """What vocab.json is to hold."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self.record)}

    @classmethod
    def from_json(cls: type[T], record: object, closed: bool = True) -> T:
        """Raises ValueError if the record is not what `to_json` gave, or is not closed and lacks some of that."""
        return cls(**vars(load_record(cls.record, record, closed)))
