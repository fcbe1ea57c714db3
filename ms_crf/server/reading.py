"""Parsing of requests to tag: JSON is validated, and raw text is split into sentences."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ms_crf.base.errors import brief, meant, one_line
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.server.limits import Limits, RequestError
from ms_crf.server.schema import INPUTS, OPTIONS, RAW, TEXT, TEXTS, TOKENS, validated
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Splitter

from msgspec import Struct

DEEPEST = 8                            # most levels of nested JSON
EACH = 20                              # splitting an empty text takes as long as splitting this number of characters


class PreparedRequest(NamedTuple):
    """The sentences and options of a request, ready for the tagger."""

    items: list[Sentence]              # all sentences of the request
    sizes: list[int] | None            # number of sentences in each text; None unless the request has "texts"
    confidence: bool | None            # None: confidences if the model computes them
    nbest: int


class TagRequest(NamedTuple):
    """The validated values of a request. Raw text is not split yet."""

    kind: str                          # 'text', 'texts', 'tokens' or 'sentences'
    value: Any                         # the value of this key
    confidence: bool | None
    nbest: int
    splitter: str | None

    @property
    def values(self) -> list[Any]:
        """The value as a list of texts or of sentences."""
        return [self.value] if self.kind in (TEXT, TOKENS) else self.value


def parse_request(data: bytes, types: Mapping[str, type[Struct]]) -> TagRequest:
    """Returns the values in the body of a request; raises RequestError if it is invalid.

    Args:
        data: JSON.
        types: the result of `request_types`.
    """
    try:
        record = json_of(data, DEEPEST)
    except JSONFault as error:
        where = '' if error.line is None else f' on line {error.line}'
        raise RequestError(400, one_line(f'expected JSON: {error}{where}')) from None
    if not isinstance(record, dict):
        raise RequestError(422, f'expected a JSON object, got {type(record).__name__}')
    for name in record:
        if name not in INPUTS + OPTIONS:
            raise RequestError(422, f'unknown key {brief(name)}, expected {", ".join(INPUTS + OPTIONS)}'
                                    f'{meant(name, INPUTS + OPTIONS, "")}')
    named = [name for name in INPUTS if name in record]
    if len(named) != 1:
        raise RequestError(422, 'expected exactly one key of "text", "texts", "tokens" and "sentences", got '
                                f'{" and ".join(named) or "none"}')
    kind, = named
    if kind not in RAW and record.get('splitter') is not None:
        raise RequestError(422, f'"splitter" has no effect with "{kind}"; omit "splitter"')
    request: Any = validated(record, types[kind])
    return TagRequest(kind, getattr(request, kind), request.confidence, request.nbest, request.splitter)


def splitting_work(request: TagRequest) -> int:
    """Returns the estimated work of splitting the raw text of a request, in characters."""
    return sum(map(len, request.values)) + EACH * len(request.values)


def prepare_request(request: TagRequest, splitter: Callable[[], Splitter] | None, limits: Limits) -> PreparedRequest:
    """Returns the sentences of a request; raises RequestError if sentences or tokens exceed the limits.

    Args:
        request: the result of `parse_request`.
        splitter: function that returns the splitter for raw text; None if the request has no raw text.
        limits: limits of a request.
    """
    if request.kind in RAW:
        assert splitter is not None
        parts = [*map(splitter().split, request.values)]
    else:
        parts = [[Sentence(tokens)] for tokens in request.values]
    items = [item for part in parts for item in part]
    tokens = sum(len(item.tokens) for item in items)
    for count, most, what in ((len(items), limits.max_sentences, 'sentences'), (tokens, limits.max_tokens, 'tokens')):
        if count > most:
            raise RequestError(413, f'expected at most {most:,} {what}, got {count:,}; send fewer at a time')
    for index, item in enumerate(items):
        if len(item.tokens) > limits.max_length:
            raise RequestError(413, f'expected sentences of at most {limits.max_length:,} tokens, got '
                               f'{len(item.tokens):,} in sentence {index}')
    sizes = [len(part) for part in parts] if request.kind == TEXTS else None
    return PreparedRequest(items, sizes, request.confidence, request.nbest)
