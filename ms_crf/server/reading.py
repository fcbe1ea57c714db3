"""What a request to tag asks for: its JSON, checked, as sentences with all that is needed to write them out again."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ms_crf.base.errors import brief, meant, one_line
from ms_crf.base.fields import JSONFault, json_of
from ms_crf.server.limits import Limits, Refused
from ms_crf.server.schema import INPUTS, OPTIONS, RAW, TEXT, TEXTS, TOKENS, checked
from ms_crf.text.sentence import Sentence
from ms_crf.text.splitting import Splitter

from msgspec import Struct

DEEPEST = 8                            # levels of JSON
EACH = 20                              # characters that take as long to split as an empty text does


class Wanted(NamedTuple):
    """What a request asks for."""

    items: list[Sentence]                  # its sentences
    sizes: list[int] | None            # how many of them each of its texts has; None unless "texts" was given
    confidence: bool | None            # None for what the model has
    nbest: int


class Asked(NamedTuple):
    """The values of a request, of the right types; raw text is not cut yet."""

    kind: str                          # one of INPUTS
    value: Any
    confidence: bool | None
    nbest: int
    splitter: str | None

    @property
    def values(self) -> list[Any]:
        """The texts, or the sentences."""
        return [self.value] if self.kind in (TEXT, TOKENS) else self.value


def asked(data: bytes, types: Mapping[str, type[Struct]]) -> Asked:
    """Returns the values in the body of a request; raises Refused if it is invalid.

    Args:
        data: JSON.
        types: what `request_types` gave.
    """
    try:
        record = json_of(data, DEEPEST)
    except JSONFault as error:
        where = '' if error.line is None else f' on line {error.line}'
        raise Refused(400, one_line(f'expected JSON: {error}{where}')) from None
    if not isinstance(record, dict):
        raise Refused(422, f'expected a JSON object, got {type(record).__name__}')
    for name in record:
        if name not in INPUTS + OPTIONS:
            raise Refused(422, f'expected the names {", ".join(INPUTS + OPTIONS)}, got {brief(name)}'
                               f'{meant(name, INPUTS + OPTIONS, "")}')
    named = [name for name in INPUTS if name in record]
    if len(named) != 1:
        raise Refused(422, f'expected one of "text", "texts", "tokens" and "sentences", got '
                           f'{" and ".join(named) or "none of them"}')
    kind, = named
    if kind not in RAW and record.get('splitter') is not None:
        raise Refused(422, f'"splitter" means nothing with "{kind}"; leave it away')
    request: Any = checked(record, types[kind])
    return Asked(kind, getattr(request, kind), request.confidence, request.nbest, request.splitter)


def work(request: Asked) -> int:
    """How much work it is to split the raw text of a request: its characters, and some for each text."""
    return sum(map(len, request.values)) + EACH * len(request.values)


def wanted(request: Asked, splitter: Callable[[], Splitter] | None, limits: Limits) -> Wanted:
    """The sentences of a request; raises Refused if there are too many of them, or of their tokens.

    Args:
        request: what `asked` gave.
        splitter: returns the splitter of raw text; None if the request has no raw text.
        limits: of requests.
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
            raise Refused(413, f'expected at most {most:,} {what}, got {count:,}; send fewer at a time')
    for index, item in enumerate(items):
        if len(item.tokens) > limits.max_length:
            raise Refused(413, f'expected sentences of at most {limits.max_length:,} tokens, got '
                               f'{len(item.tokens):,} in sentence {index}')
    sizes = [len(part) for part in parts] if request.kind == TEXTS else None
    return Wanted(items, sizes, request.confidence, request.nbest)
