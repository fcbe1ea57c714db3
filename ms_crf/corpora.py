"""The corpora of one training: read, their scheme recognised, their tags brought into the scheme of training."""

from typing import NamedTuple

from ms_crf.corpus import CorpusError, is_json, read_corpus
from ms_crf.scoring import score
from ms_crf.spans import (
    PLAIN,
    SchemeError,
    is_span_tag,
    recognise_scheme,
    spans_of,
    split_tag,
    strict_spans_of,
    tags_of,
)

PREFIXES = {'BIO': 'BI', 'BIOES': 'BIES', 'BMES': 'BMES'}


class Corpora(NamedTuple):
    """Train, dev and test under one scheme."""

    parts: dict        # 'train', 'dev', 'test' (where given): list of `Sentence`, tags in the scheme of training
    gold: dict         # the same parts: lists of tags in the scheme of the files (BIO for IOB1)
    found: str         # the scheme of the files
    scheme: str        # the scheme of training
    tags: list         # all tags of training
    repaired: list     # (path, number of sentences, line of the first) where tags broke the scheme


def load(paths, scheme='auto', columns=(0, -1)):
    """Reads the files of a training.

    Args:
        paths: dict of 'train', 'dev' and perhaps 'test' to file names.
        scheme: to train in: 'auto' for that of the files (BIO for IOB1), or 'BIO', 'BIOES', 'BMES'.
        columns: of token and tag, see `read_corpus`.

    Raises:
        CorpusError: at the first fault.
    """
    files = {part: read_corpus(path, columns) for part, path in paths.items()}
    found = _recognise(paths, files)
    home = _home(found)
    target = home if scheme == 'auto' else scheme
    if PLAIN in (found, target) and target != found:
        raise CorpusError(paths['train'], None, f'expected tags of spans for the scheme {target}, '
                                                f'got {found} tags; leave --scheme away')
    _check_types(paths, files, found)
    repaired = [entry for part in files if (entry := _ill_formed(paths[part], files[part], found))]
    if found == PLAIN:
        tags = sorted({tag for sentence in files['train'] for tag in sentence.tags})
        gold = {part: [sentence.tags for sentence in sentences] for part, sentences in files.items()}
        return Corpora(files, gold, found, target, tags, repaired)
    parts = {part: [sentence._replace(tags=convert(sentence.tags, target)) for sentence in sentences]
             for part, sentences in files.items()}
    gold = {part: [convert(sentence.tags, home) for sentence in sentences] for part, sentences in files.items()}
    return Corpora(parts, gold, found, target, _all_tags(files['train'], target), repaired)


def convert(tags, scheme):
    """The same spans in another scheme."""
    return tags_of(spans_of(tags), len(tags), scheme)


def score_in(scheme, gold, predicted):
    """Scores predictions of any span scheme against gold tags in `scheme` (BIO for IOB1)."""
    if scheme == PLAIN:
        return score(gold, predicted, PLAIN)
    home = _home(scheme)
    return score(gold, [convert(tags, home) for tags in predicted], home)


def gold_in(scheme, tags, path, line):
    """Tags of a sentence at that line of a file as `score_in` wants them: in `scheme`, BIO for IOB1."""
    if scheme == PLAIN:
        return tags
    odd = next((tag for tag in tags if not is_span_tag(tag) and tag != 'O'), None)
    if odd is not None:
        raise CorpusError(path, line, f"expected 'O' or tags of spans like {_home(scheme)} has them, got {odd!r} in "
                                      'the sentence that begins here')
    try:
        recognise_scheme([tags])
    except SchemeError as error:
        raise CorpusError(path, line, f'{error} in the sentence that begins here') from None
    return convert(tags, _home(scheme))


def _home(scheme):
    return 'BIO' if scheme == 'IOB1' else scheme


def _recognise(paths, files):
    sentences = [(paths[part], sentence) for part, read in files.items() for sentence in read]
    try:
        return recognise_scheme([sentence.tags for _, sentence in sentences])
    except SchemeError as error:
        path, sentence = sentences[error.sentence]
        raise CorpusError(path, _line_of(path, sentence, error.position), str(error)) from None


def _line_of(path, sentence, position):
    """The line of a token; of JSON lines that of its sentence."""
    return sentence.line if is_json(path) else sentence.line + position


def _kind(tag, scheme):
    return tag if scheme == PLAIN else split_tag(tag)[1]


def _check_types(paths, files, scheme):
    """What is to be found in dev and test must occur in train."""
    known = {_kind(tag, scheme) for sentence in files['train'] for tag in sentence.tags}
    for part, sentences in files.items():
        for sentence in sentences:
            for position, tag in enumerate(sentence.tags):
                if _kind(tag, scheme) not in known and tag != 'O':
                    line = _line_of(paths[part], sentence, position)
                    raise CorpusError(paths[part], line, f'expected tags that {paths["train"]} has, got {tag!r}')


def _ill_formed(path, sentences, scheme):
    """(path, number of sentences whose tags break the scheme, line of the first), or None."""
    if scheme in (PLAIN, 'IOB1'):
        return None
    lines = [sentence.line for sentence in sentences
             if spans_of(sentence.tags) != strict_spans_of(sentence.tags, scheme)]
    return (path, len(lines), lines[0]) if lines else None


def _all_tags(sentences, scheme):
    kinds = sorted({split_tag(tag)[1] for sentence in sentences for tag in sentence.tags if tag != 'O'})
    outside = scheme != 'BMES' or any('O' in sentence.tags for sentence in sentences)
    return ['O'] * outside + [f'{prefix}-{kind}' if kind else prefix for kind in kinds for prefix in PREFIXES[scheme]]
