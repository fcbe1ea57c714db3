"""Reads text: a sentence a line, or raw text, in which a splitter finds the sentences of paragraphs as they arrive."""

import re
from collections.abc import Iterator
from typing import Any

from ms_crf.formats.document import Lines, Reading
from ms_crf.text.sentence import Sentence, find_tokens
from ms_crf.text.splitting import BLANKS, Splitter, is_blank, line_ends_before

LONGEST = 1_000_000            # characters of a paragraph; a longer one ends with a line
_WORD, _CHARACTER = re.compile(f'[^{BLANKS}]+'), re.compile(f'[^{BLANKS}]')


def sentences(lines: Lines, name: object, reading: Reading) -> Iterator[Sentence | None]:
    """A sentence for each line; a None among the lines is yielded as it is."""
    for line in lines:
        yield None if line is None else sentence_of_text(line[1], reading.characters, line=line[0])


def sentence_of_text(text: str, characters: bool, **others: Any) -> Sentence:
    """The sentence of a line: tabs, spaces and line ends separate its words, as they do in column files.

    Args:
        text: the line.
        characters: whether each character is a token; otherwise each word is one.
        others: further arguments of `Sentence`.
    """
    return Sentence((_CHARACTER if characters else _WORD).findall(text), text=text, **others)


def sentence_of_tokens(tokens: list[str], text: object = None, **others: Any) -> Sentence:
    """The sentence of some tokens: in the text that came with them, if that holds them one after the other, and
    otherwise joined by spaces; `others` are further arguments of `Sentence`."""
    offsets = find_tokens(tokens, text) if isinstance(text, str) else None
    return Sentence(tokens, text=text if isinstance(text, str) and offsets is not None else None, offsets=offsets,
                    **others)


def raw_sentences(lines: Lines, splitter: Splitter) -> Iterator[Sentence | None]:
    """The sentences of raw text, paragraph by paragraph: an empty line ends a sentence.

    The texts of the sentences, put together, are the text. White space before a sentence is a part of its text, and so
    is white space after the last sentence of a paragraph; white space in which there is no sentence is a sentence
    without tokens.

    Args:
        lines: (line number, text with its end) one after the other. A None among them, which stands for a pause in the
            input, is yielded where it is between paragraphs.
        splitter: finds sentences and tokens.
    """
    paragraph: list[str] = []
    first = offset = size = 0
    after_blank = False
    for line in lines:
        if line is None:
            if not paragraph:
                yield None
            continue
        number, text = line
        blank = all(map(is_blank, text))
        if (after_blank and not blank) or size > LONGEST:        # empty lines belong to the paragraph before them
            yield from _of_paragraph(''.join(paragraph), first, offset, splitter)
            offset, size = offset + size, 0
            paragraph = []
        if not paragraph:
            first = number
        paragraph.append(text)
        size += len(text)
        after_blank = blank
    if paragraph:
        yield from _of_paragraph(''.join(paragraph), first, offset, splitter)


def _of_paragraph(text: str, line: int, offset: int, splitter: Splitter) -> Iterator[Sentence]:
    found = splitter.split(text)
    if not found:
        yield Sentence([], text=text, start=offset, raw=True, line=line)
        return
    begin, line_ends = 0, line_ends_before(text)
    for sentence in found:
        end = len(text) if sentence is found[-1] else sentence.end
        offsets = [(start + offset, stop + offset) for start, stop in sentence.offsets]
        yield Sentence(sentence.tokens, text=text[begin:end], start=offset + begin, offsets=offsets, raw=True,
                       line=line + line_ends(sentence.start))
        begin = end
