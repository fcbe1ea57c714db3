"""The tags of a model and their ids, and whether it reads single characters."""

from collections.abc import Collection, Iterable
from typing import Any

from ms_crf.errors import brief

CHARACTERS = 0.9               # a model is one of characters if so many of its words are of one


def mostly_characters(words: Collection[str]) -> bool:
    """Whether distinct words are those of a model that was trained on single characters, as Chinese text is."""
    return sum(len(word) == 1 for word in words) > CHARACTERS * len(words)


class Tags:
    """The tags of a model, their ids counted from 0.

    Args:
        tags: strings.
        of_characters: whether it was trained on single characters.
    """

    def __init__(self, tags: Iterable[str], of_characters: bool) -> None:
        self.tags, self.of_characters = list(tags), of_characters
        self._tag_ids = {tag: index for index, tag in enumerate(self.tags)}

    def tag_ids(self, tags: Iterable[str]) -> list[int]:
        """The id of each tag, all of which are known."""
        return [self._tag_ids[tag] for tag in tags]

    def to_json(self) -> dict:
        """What vocab.json is to hold."""
        return {'tags': self.tags, 'of_characters': self.of_characters}

    @classmethod
    def from_json(cls, record: Any) -> 'Tags':
        """Raises ValueError if the record is not what `to_json` gave."""
        if not isinstance(record, dict) or sorted(record) != ['of_characters', 'tags']:
            raise ValueError('expected the keys tags and of_characters')
        check_strings(record, ['tags'])
        if not isinstance(record['of_characters'], bool):
            raise ValueError(f'expected of_characters to be true or false, got '
                             f'{brief(record["of_characters"])}')
        return cls(record['tags'], record['of_characters'])


def check_strings(record: dict, names: Iterable[str]) -> None:
    """Raises ValueError unless these items are lists of distinct words, and tags at least one."""
    for name in names:
        items = record[name]
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise ValueError(f'expected {name} to be a list of strings')
        if '' in items or (name == 'tags' and not items):
            raise ValueError(f'expected {name} to have none that is empty' if items else 'expected tags, got none')
        try:
            ''.join(items).encode()
        except UnicodeEncodeError as error:
            raise ValueError(f'expected {name} to be Unicode, got half of a pair of surrogates, '
                             f'{error.object[error.start]!a}') from None
        if len(set(items)) != len(items):
            raise ValueError(f'expected {name} to be distinct')


def check_tags(record: dict) -> None:
    """Raises ValueError unless there are tags, and all of them can be written."""
    tags = record.get('tags')
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError('expected tags to be a list of strings')
    if not tags:
        raise ValueError('expected tags to hold at least one, got none')
    wrong = next((tag for tag in tags if not tag or tag.encode('utf-8', 'replace').decode() != tag), None)
    if wrong is not None:
        raise ValueError(f'expected tags that are not empty, of characters that can be written, got {ascii(wrong):.40}')


def check_number(record: dict, key: str, least: int) -> None:
    """Raises ValueError unless there is a whole number that a tensor's size can be."""
    value = record.get(key)
    if type(value) is not int or not least <= value < 1 << 31:
        raise ValueError(f'expected {key} to be a whole number from {least} to {(1 << 31) - 1}, got {str(value)[:40]}')
