"""The rows of column files: which lines hold tokens, and which are comments or end a sentence."""

import re
from collections.abc import Iterable, Iterator

from ms_crf.text.partial import MARK, is_open, opened
from ms_crf.text.schemes import is_span_tag
from ms_crf.text.sentence import Row

KNOWN_TAGS = 1000          # a last column with more distinct values than these does not hold tags
_NO_WORD = re.compile(r'[0-9]+[-.][0-9]+')     # the number of a range of words, or of an empty node, of CoNLL-U


def split(text: str) -> list[str]:
    """The columns of a line, separated by tabs if it has any, by blanks otherwise; blanks around a column are removed.

    Other white space is part of a token.
    """
    if '\t' in text:
        return [column.strip(' ') for column in text.split('\t')]
    return [column for column in text.split(' ') if column]


def blocks(lines: Iterable[tuple[int, str] | None], conllu: bool = False,
           mark: str = MARK) -> Iterator[list[Row] | None]:
    """Groups lines by sentence: yields lists of rows, of which the last is the blank line that ends the sentence.

    -DOCSTART- rows and comments hold no token, and neither do the ranges of words (1-2) and empty nodes (1.1) of
    CoNLL-U. At the end of the file the blank line may be missing.

    Args:
        lines: (line number, text) one after the other; a None among them, which stands for a pause in the input, is
            yielded as it is.
        conllu: whether the file is in the format CoNLL-U.
        mark: what stands in place of a tag that nobody has judged; '' for nothing.
    """
    comments, waiting, block = _Comments(conllu, mark), [], []
    for line in lines:
        if line is None:
            yield None
            continue
        line_number, text = line
        cells = split(text) if text.strip(' \t') else []
        if conllu and len(cells) >= 10 and _NO_WORD.fullmatch(cells[0]):
            block.append(Row(line_number, text, []))
            continue
        if cells:
            comments.see(text, cells)
        block.append(Row(line_number, text, cells))
        if not cells:
            waiting.append(block)
            block = []
            if comments.width is not None or conllu:
                yield from map(comments.without, waiting)
                waiting = []
    if block:
        waiting.append(block)
    yield from map(comments.without, waiting)


class _Comments:
    """Decides whether a line that begins with '#' is a comment or a row whose token is a hashtag or '#'.

    In CoNLL-U every such line is a comment. In other files it is a comment if

    - it has another number of columns than the rows;
    - columns are separated by tabs, and it has none;
    - columns are separated by blanks, it stands before the first row of a sentence, its first column is '#' alone, and
      it has the form '# key = value' or does not end in a tag. Tags are O, ?, tags of spans such as B-PER and ?-PER,
      also with another mark in place of ?, and what the rows of this and of earlier sentences end in.

    In a file in which all lines begin with '#', those are comments that have this form or do not end in a tag.
    """

    def __init__(self, conllu: bool, mark: str) -> None:
        self.conllu, self.tabs, self.tags, self.marks = conllu, False, {'O'}, (MARK, mark)
        self.width: int | None = None

    def see(self, text: str, cells: list[str]) -> None:
        """Learns from a row how many columns there are, what separates them, and its tag."""
        if text.startswith(('#', '-DOCSTART-')):
            return
        if self.width is None:
            self.width, self.tabs = len(cells), '\t' in text
        if len(self.tags) < KNOWN_TAGS:
            self.tags.add(cells[-1])

    def without(self, rows: list[Row]) -> list[Row]:
        """The rows of a sentence, without cells where a row holds no token."""
        checked, begun = [], False
        for row in rows:
            if row.cells and (row.text.startswith('-DOCSTART-') or self._is_comment(row, begun)):
                row = row._replace(cells=[])
            begun |= bool(row.cells)
            checked.append(row)
        return checked

    def _is_comment(self, row: Row, begun: bool) -> bool:
        cells = row.cells
        if not row.text.startswith('#'):
            return False
        unknown = any(is_open(opened(cells[-1:], mark)) for mark in self.marks)
        remark = cells[2:3] == ['='] or not (unknown or cells[-1] in self.tags or is_span_tag(cells[-1]))
        if self.width is None and not self.conllu:
            return len(cells) == 1 or remark
        if self.conllu or len(cells) != self.width:
            return True
        if self.tabs:
            return '\t' not in row.text
        return remark and not begun and cells[0] == '#' and len(cells) > 1
