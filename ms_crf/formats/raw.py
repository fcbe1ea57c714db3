"""Reads raw text: paragraphs as they arrive, and the sentences in them, each at its place."""

from collections.abc import Iterable, Iterator

from ms_crf.formats.stream import Item
from ms_crf.text.splitting import Splitter, is_blank, line_ends_before

LONGEST = 1_000_000            # characters of a paragraph; a longer one ends with a line


def items(lines: Iterable[tuple[int, str] | None], splitter: Splitter) -> Iterator[Item | None]:
    """The sentences of raw text, paragraph by paragraph: an empty line ends a sentence.

    The texts of the items, put together, are the text. What stands before a sentence is a part of the text of its item,
    what follows the last one of a paragraph a part of that one; blanks in which there is no sentence have an item
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
        after_blank = blank and bool(paragraph)
    if paragraph:
        yield from _of_paragraph(''.join(paragraph), first, offset, splitter)


def _of_paragraph(text: str, line: int, offset: int, splitter: Splitter) -> Iterator[Item]:
    sentences = splitter.split(text)
    if not sentences:
        yield Item(line, text, [], [], offset=offset)
        return
    begin, line_ends = 0, line_ends_before(text)
    for index, sentence in enumerate(sentences):
        end = len(text) if index == len(sentences) - 1 else sentence.end
        tokens = [text[start:stop] for start, stop in sentence.tokens]
        yield Item(line + line_ends(sentence.start), text[begin:end], tokens,
                   [start - begin for start, _ in sentence.tokens], offset=offset + begin)
        begin = end
