"""Text with coloured marks in it as HTML: a page that needs nothing but itself, and a fragment for notebooks.

What comes from the text is escaped. HTML can't hold all of its characters: control characters and lone surrogates stand
on the page as their numbers, such as U+0000, marked as no part of the text. All others are as they were.
"""

import colorsys
import functools
import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import NamedTuple


@functools.cache
def asset(module: str, name: str) -> str:
    """Returns the text of a file in the folder of a module, whose `__file__` is `module`."""
    return Path(module).with_name(name).read_text(encoding='utf-8')


PALETTE = asset(__file__, 'palette.css')


def _theme(rules: str) -> dict[str, str]:
    return dict(re.findall(r'--([\w-]+): (#[0-9a-f]{6})', rules))


#: the colours of the light and of the dark theme by their names, such as '#ffffff'
THEMES = tuple(map(_theme, PALETTE.split('@media')))


def rgb(colour: str) -> tuple[int, int, int]:
    """Returns the red, green and blue of a colour such as '#ffffff'."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


TAGS, SPANS, WORDS = 'tags', 'spans', 'words'       # what marks are: single tokens, some tokens, all of the text

#: background and text of the page, light and dark
PAGE = tuple((rgb(theme['page']), rgb(theme['ink'])) for theme in THEMES)
LEVELS = 20                                         # steps of strength that confidences are shown in
#: labels of usual corpora: their number in the palette is their position in the line; synonyms share one
_USUAL = ('PER/PERSON LOC/LOCATION ORG/ORGANIZATION/CORPORATION MISC GPE PRODUCT/PROD NORP/GROUP '
          'WORK_OF_ART/CREATIVE-WORK FAC/FACILITY DATE TIME MONEY PERCENT QUANTITY CARDINAL ORDINAL EVENT LAW LANGUAGE',
          'NP VP PP ADVP ADJP SBAR PRT CONJP',
          'NOUN VERB ADJ ADV PRON DET ADP PUNCT PROPN AUX CCONJ SCONJ NUM PART INTJ SYM X')
_NUMBERS = {name: number for line in _USUAL for number, names in enumerate(line.split()) for name in names.split('/')}
COLOURS, _FIRST_HASHED = 2048, 24                   # of all labels, and the first number of labels that are not usual
_GOLDEN = 137.508                                   # degrees; many hues at this distance stay apart
_LIGHTNESS = ((.80, .27), (.72, .22), (.87, .17))   # of marks, light and dark; another for each round of eight types
_EDGES = (.38, .62)

_SPECIAL = re.compile('\r\n?|[&<>"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]')
_ENTITIES = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\r\n': '&#13;\n', '\r': '&#13;<br>'}

Colour = tuple[int, int, int]
_BEGIN, _END = asset(__file__, 'page.html').split('$sentences')


class Mark(NamedTuple):
    """A part of a text that stands out: from `begin` to `end`, exclusive, in characters."""

    begin: int
    end: int
    label: str
    confidence: float | None = None


def colour(label: str, dark: bool = False) -> Colour:
    """Returns the background of marks with this label, as red, green and blue up to 255.

    The colour depends on the label alone, so a type looks the same in reports, tagged pages and notebooks.

    Args:
        label: a type or a tag. Labels of usual corpora have colours that differ clearly; other labels get a colour by
            their checksum, and two of them may look alike.
        dark: for the dark theme.
    """
    return colour_of(number_of(label), dark)


def number_of(label: str) -> int:
    """Returns the number of a label in the palette, below COLOURS."""
    checksum = zlib.crc32(label.encode('utf-8', 'surrogatepass'))
    return _NUMBERS.get(label.upper(), _FIRST_HASHED + checksum % (COLOURS - _FIRST_HASHED))


def colour_of(number: int, dark: bool) -> Colour:
    """Returns a colour of the palette. Text of the theme is readable on each of them, at each strength."""
    return _rgb(number, _LIGHTNESS[number // 8 % len(_LIGHTNESS)][dark], .5 if dark else .85)


def _rgb(number: int, lightness: float, saturation: float) -> Colour:
    red, green, blue = colorsys.hls_to_rgb((210 + number * _GOLDEN) % 360 / 360, lightness, saturation)
    return round(255 * red), round(255 * green), round(255 * blue)


def colour_rules(labels: Iterable[str]) -> str:
    """Returns a style sheet with the background and the edge of .t0, .t1, ... in both themes, as two variables."""
    numbers = list(map(number_of, labels))

    def rules(dark: bool) -> str:
        return ''.join(f'.t{index}{{--c:{_numbers(colour_of(number, dark))};'
                       f'--e:{_numbers(_rgb(number, _EDGES[dark], .6))}}}' for index, number in enumerate(numbers))
    return f'{rules(False)}\n@media(prefers-color-scheme:dark){{{rules(True)}}}\n' if numbers else ''


def _numbers(colour: Colour) -> str:
    return ' '.join(map(str, colour))


def escaped(text: str) -> str:
    """A text as the content of an element whose blanks are kept: each character once, numbers of what HTML lacks."""
    return _SPECIAL.sub(_entity, text)


def _entity(match: re.Match[str]) -> str:
    found = match.group()
    return _ENTITIES.get(found) or f'<span class="code" title="U+{ord(found):04X}">U+{ord(found):04X}</span>'


def _attribute(text: str) -> str:
    return _SPECIAL.sub(lambda match: _ENTITIES.get(match.group()[:1]) or f'U+{ord(match.group()[0]):04X}',
                        text.replace('\r', ' '))


def _level(confidence: float) -> int:
    return round(LEVELS * min(1.0, max(0.0, confidence)))


def _title(mark: Mark) -> str:
    figure = '' if mark.confidence is None else f'confidence {mark.confidence:.4f}'
    words = _attribute(', '.join(filter(None, (mark.label, figure))))
    return f' title="{words}"' if words else ''


def _interleaved(text: str, marks: Iterable[Mark], shown: Callable[[Mark, str], str]) -> str:
    """A text, escaped, with what `shown` makes of each mark and the escaped text in it; marks come in order."""
    pieces, done = [], 0
    for mark in marks:
        pieces += [escaped(text[done:mark.begin]), shown(mark, escaped(text[mark.begin:mark.end]))]
        done = mark.end
    return ''.join([*pieces, escaped(text[done:])])


class Page:
    """A page in parts, which are written one after the other: `begin`, any number of `sentence`, `end`.

    Colours follow the reader's choice of light or dark. Strength of a colour is confidence; its figure is a title, text
    that screen readers read, and for all to see once a box is ticked. There is no script, and nothing is loaded.

    Args:
        labels: all labels that marks may have, in the order of the legend; '' is a mark without a label.
        kind: what marks are, TAGS, SPANS or WORDS.
        confidence: whether marks have confidences.
    """

    def __init__(self, labels: Sequence[str], kind: str = SPANS, confidence: bool = False) -> None:
        self.numbers = {label: index for index, label in enumerate(labels)}
        self.kind, self.confidence = kind, confidence
        self.element = 'span' if kind == TAGS else 'mark'

    def begin(self, title: str) -> str:
        """All that comes before the first sentence: styles, the title as a heading, the legend."""
        style = self.style()
        policy = f"default-src 'none'; style-src '{policy_hash(style)}'; base-uri 'none'; form-action 'none'"
        return Template(_BEGIN).substitute(policy=policy, title=_attribute(title), style=style, kind=self.kind,
                                           legend=self.legend(), switch=self.switch())

    def style(self) -> str:
        """The style sheet of text with its marks, and of the page around it."""
        levels = ''.join(f'.s{level}{{--s:{level / LEVELS:g}}}' for level in range(LEVELS + 1))
        return f'\n{PALETTE}{colour_rules(self.numbers)}{asset(__file__, "page.css")}{levels}\n'

    def legend(self) -> str:
        """The colours of all labels as a list; nothing if there are none."""
        items = [f'<li><{self.element} class="m t{index}">{_attribute(label) or "no type"}</{self.element}></li>\n'
                 for label, index in self.numbers.items()]
        if self.kind == WORDS or list(self.numbers) in ([], ['']):
            return ''
        name = 'Tags' if self.kind == TAGS else 'Types'
        return f'<ul class="legend" role="list" aria-label="{name}">\n{"".join(items)}</ul>\n'

    def switch(self) -> str:
        """The box that shows confidences of marks in a <div> beside it; nothing if there are none."""
        if not self.confidence:
            return ''
        # Beside the sentences, so that a rule of the style sheet can tell from it what to show there.
        return ('<input type="checkbox" id="figures"><label for="figures">Show confidences; the stronger a colour, the '
                'surer the model</label>\n')

    def sentence(self, text: str, marks: Iterable[Mark], confidence: float | None = None,
                 alternatives: Sequence[tuple[Iterable[Mark], float]] = ()) -> str:
        """A sentence, with its alternatives folded away below it.

        Args:
            text: as it is to be read.
            marks: in order; they must not overlap.
            confidence: of all marks together.
            alternatives: other marks of the same text, each with their confidence, likeliest first.
        """
        figure = '' if confidence is None else f'<bdi class="note figure"> sentence {confidence:.2f}</bdi>'
        folded = ''
        if alternatives:
            items = [f'<li>{other:.4f}<p class="text other" dir="auto">{_interleaved(text, others, self._shown)}'
                     '</p></li>\n' for others, other in alternatives]
            folded = (f'<details><summary lang="en">Likeliest taggings: {len(items)}</summary>\n'
                      f'<ol>\n{"".join(items)}</ol>\n</details>\n')
        return f'<p class="text" dir="auto">{_interleaved(text, marks, self._shown)}{figure}</p>\n{folded}'

    def _shown(self, mark: Mark, inside: str) -> str:
        strength = '' if mark.confidence is None else f' s{_level(mark.confidence)}'
        label = f'<bdi class="note">{_attribute(mark.label)}</bdi>' if mark.label else ''
        figure = '' if mark.confidence is None else f'<bdi class="note figure">&nbsp;{mark.confidence:.2f}</bdi>'
        return (f'<{self.element} class="m t{self.numbers[mark.label]}{strength}"{_title(mark)}>{inside}{label}{figure}'
                f'</{self.element}>')

    def end(self) -> str:
        """What comes after the last sentence."""
        return _END


def policy_hash(source: str) -> str:
    """By what a policy (Content-Security-Policy) knows a style sheet or a script that stands in the page."""
    return f'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'


def fragment(text: str, marks: Iterable[Mark]) -> str:
    """A text with marks as an element for a page of someone else's; a label has the same colour in all of them.

    Args:
        text: as it is to be read.
        marks: in order; they must not overlap.
    """
    return ('<div dir="auto" style="white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.9">'
            f'{_interleaved(text, marks, _inline)}</div>')


def _inline(mark: Mark, inside: str) -> str:
    # Opaque on whatever the page is: the colour is mixed with white, and the text on it is dark.
    strength = 1.0 if mark.confidence is None else _level(mark.confidence) / LEVELS
    mixed = ','.join(str(round(255 + (part - 255) * strength)) for part in colour(mark.label))
    notes = _attribute(mark.label) + ('' if mark.confidence is None else f' {mark.confidence:.2f}')
    label = f' <bdi style="font-size:.75em;font-weight:600">{notes.strip()}</bdi>' if notes else ''
    return (f'<span style="background:rgb({mixed});color:rgb{PAGE[0][1]};border-radius:.25em;padding:.1em .25em"'
            f'{_title(mark)}>{inside}{label}</span>')
