"""Reads corpora: tagged sentences, in any format."""

from collections.abc import Iterator

from ms_crf.base.errors import CorpusError
from ms_crf.base.files import PathLike
from ms_crf.formats import alignment
from ms_crf.formats.document import COLUMNS, Reading, Report, nowhere
from ms_crf.formats.lines import numbered_lines
from ms_crf.formats.registry import Format, columns_of, of_corpus
from ms_crf.text.partial import MARK, opened
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import AUTO, Deferred, Splitter


def read_corpus(path: PathLike, columns: tuple[int, ...] = COLUMNS, splitter: str | Splitter = AUTO,
                report: Report = nowhere, mark: str = MARK, widths: list[int] | None = None) -> list[Sentence]:
    """All tagged sentences of a corpus.

    Its name says which format it has, see `ms_crf.formats.registry`; files of any other name have columns. Texts with
    spans become sentences with tags in BIO by the rules of `ms_crf.formats.alignment`. A file is read only once, so
    that it may be a pipe.

    Args:
        path: the file or folder.
        columns: indices of the columns of token and tag, from 0, or from -1 backwards.
        splitter: what finds sentences and tokens in texts, or its name, see `ms_crf.text.splitting`.
        report: is called with a `Remark` on whatever of a text or its spans is not kept.
        mark: what stands in place of a tag that nobody has judged, see `ms_crf.text.partial`; '' for nothing. In the
            tags that are returned OPEN stands there.
        widths: gets the number of columns of each row.

    Raises:
        CorpusError: the file can't be read, has a fault, or holds no sentence.
    """
    made = Deferred(splitter) if isinstance(splitter, str) else splitter
    sentences = list(_sentences(path, of_corpus(path), Reading(columns_of(path, columns), mark, report, made), widths))
    if not sentences:
        raise CorpusError(path, None, 'expected tagged sentences, got none')
    for sentence in sentences:
        sentence.tags = opened(sentence.tags, mark)
    return sentences


def _sentences(path: PathLike, row: Format, reading: Reading, widths: list[int] | None) -> Iterator[Sentence]:
    if row.sentences is None or row.documents is not None and not row.columns:
        assert reading.splitter is not None
        yield from alignment.corpus_of(row.read(path, reading), reading.splitter, reading.report)
        return
    for sentence in row.sentences(numbered_lines(path), path, reading):
        if sentence is not None and sentence.tokens:
            if widths is not None:
                widths.extend(len(row.cells) for row in sentence.rows if row.cells)
            # Without its rows, which take more memory than all else.
            yield Sentence(sentence.tokens, sentence.tags, line=sentence.line_of(0), lines=sentence.lines)
