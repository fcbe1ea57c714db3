"""Reads plain text: one sentence in each line, or raw text, in which a splitter finds the sentences."""

import re
from collections.abc import Iterator
from typing import Any

from ms_crf.formats.document import Lines, ReadOptions
from ms_crf.text.sentence import Sentence, find_tokens
from ms_crf.text.splitting import BLANKS, Splitter, is_blank, line_ends_before

LONGEST = 1_000_000            # characters of a paragraph; longer paragraphs end at the next line end
_WORD, _CHARACTER = re.compile(f'[^{BLANKS}]+'), re.compile(f'[^{BLANKS}]')


def sentences(lines: Lines, name: object, options: ReadOptions) -> Iterator[Sentence | None]:
    """Reads each line as a sentence; None, a pause in the input, is yielded unchanged."""
    for line in lines:
        yield None if line is None else sentence_of_text(line[1], options.characters, line=line[0])


def sentence_of_text(text: str, characters: bool, **others: Any) -> Sentence:
    """The sentence of a line. Tabs, spaces and line ends separate its words, as in column files.

    Args:
        text: the line.
        characters: whether each character is a token; otherwise each word is a token.
        others: more arguments of `Sentence`.
    """
    return Sentence((_CHARACTER if characters else _WORD).findall(text), text=text, **others)


def sentence_of_tokens(tokens: list[str], text: object = None, **others: Any) -> Sentence:
    """The sentence of a list of tokens.

    Args:
        tokens: the tokens.
        text: the text that contains the tokens in this order; if it does not, the tokens are joined with spaces.
        others: more arguments of `Sentence`.
    """
    offsets = find_tokens(tokens, text) if isinstance(text, str) else None
    return Sentence(tokens, text=text if isinstance(text, str) and offsets is not None else None, offsets=offsets,
                    **others)


def raw_sentences(lines: Lines, splitter: Splitter) -> Iterator[Sentence | None]:
    """Splits raw text into sentences, paragraph by paragraph: an empty line ends a sentence.

    The texts of all sentences together are the whole input. White space before a sentence, and after the last sentence
    of a paragraph, belongs to the text of the sentence. A paragraph of white space is a sentence without tokens.

    Args:
        lines: pairs of line number and text with its line end. None, a pause in the input, is yielded between
            paragraphs.
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
    parts = splitter.split(text)
    if not parts:
        yield Sentence([], text=text, start=offset, raw=True, line=line)
        return
    begin, line_ends = 0, line_ends_before(text)
    for sentence in parts:
        end = len(text) if sentence is parts[-1] else sentence.end
        offsets = [(start + offset, stop + offset) for start, stop in sentence.offsets]
        yield Sentence(sentence.tokens, text=text[begin:end], start=offset + begin, offsets=offsets, raw=True,
                       line=line + line_ends(sentence.start))
        begin = end
