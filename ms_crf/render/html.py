"""HTML with coloured marks in text: a standalone page, and a fragment for notebooks.

All text is escaped. HTML cannot represent control characters and lone surrogates; these are shown as code points such
as U+0000, in an element that marks them as not part of the text.
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
    """Returns the text of the file `name` next to the file `module` (`__file__` of a module)."""
    return Path(module).with_name(name).read_text(encoding='utf-8')


PALETTE = asset(__file__, 'palette.css')


def _theme(rules: str) -> dict[str, str]:
    return dict(re.findall(r'--([\w-]+): (#[0-9a-f]{6})', rules))


#: colours of the light and of the dark theme by name, such as '#ffffff'
THEMES = tuple(map(_theme, PALETTE.split('@media')))


def rgb(colour: str) -> tuple[int, int, int]:
    """Returns red, green and blue (0 to 255) of a colour such as '#ffffff'."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


TAGS, SPANS, WORDS = 'tags', 'spans', 'words'       # kinds of marks: on each token, on spans, on all words

#: colours of background and text of the page, for the light and the dark theme
PAGE = tuple((rgb(theme['page']), rgb(theme['ink'])) for theme in THEMES)
LEVELS = 20                                         # steps of colour strength for confidences
#: labels of common corpora: the index in the line is the number in the palette; synonyms share a number
_USUAL = ('PER/PERSON LOC/LOCATION ORG/ORGANIZATION/CORPORATION MISC GPE PRODUCT/PROD NORP/GROUP '
          'WORK_OF_ART/CREATIVE-WORK FAC/FACILITY DATE TIME MONEY PERCENT QUANTITY CARDINAL ORDINAL EVENT LAW LANGUAGE',
          'NP VP PP ADVP ADJP SBAR PRT CONJP',
          'NOUN VERB ADJ ADV PRON DET ADP PUNCT PROPN AUX CCONJ SCONJ NUM PART INTJ SYM X')
_NUMBERS = {name: number for line in _USUAL for number, names in enumerate(line.split()) for name in names.split('/')}
COLOURS, _FIRST_HASHED = 2048, 24                   # number of colours; first number of other labels
_GOLDEN = 137.508                                   # degrees between hues: many such hues are well separated
_LIGHTNESS = ((.80, .27), (.72, .22), (.87, .17))   # for light and dark; the next row after every 8 colours
_EDGES = (.38, .62)

_SPECIAL = re.compile('\r\n?|[&<>"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]')
_ENTITIES = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', '\r\n': '&#13;\n', '\r': '&#13;<br>'}

Colour = tuple[int, int, int]
_BEGIN, _END = asset(__file__, 'page.html').split('$sentences')


class Mark(NamedTuple):
    """A highlighted part of a text, from character `begin` to `end`, exclusive."""

    begin: int
    end: int
    label: str
    confidence: float | None = None


def colour(label: str, dark: bool = False) -> Colour:
    """Returns the background colour of marks with a label: red, green and blue from 0 to 255.

    The colour depends only on the label, so that a type has the same colour in reports, tagged pages and notebooks.

    Args:
        label: a type or a tag. Labels of common corpora have clearly different colours. The colours of other labels
            are chosen by checksum and may be similar.
        dark: whether to return the colour for the dark theme.
    """
    return colour_of(number_of(label), dark)


def number_of(label: str) -> int:
    """Returns the number of a label in the palette, below COLOURS."""
    checksum = zlib.crc32(label.encode('utf-8', 'surrogatepass'))
    return _NUMBERS.get(label.upper(), _FIRST_HASHED + checksum % (COLOURS - _FIRST_HASHED))


def colour_of(number: int, dark: bool) -> Colour:
    """Returns a colour of the palette; the text colour of the theme is readable on every colour and strength."""
    return _rgb(number, _LIGHTNESS[number // 8 % len(_LIGHTNESS)][dark], .5 if dark else .85)


def _rgb(number: int, lightness: float, saturation: float) -> Colour:
    red, green, blue = colorsys.hls_to_rgb((210 + number * _GOLDEN) % 360 / 360, lightness, saturation)
    return round(255 * red), round(255 * green), round(255 * blue)


def colour_rules(labels: Iterable[str]) -> str:
    """Returns CSS rules that set the colours of background and edge of .t0, .t1, ... in both themes."""
    numbers = list(map(number_of, labels))

    def rules(dark: bool) -> str:
        return ''.join(f'.t{index}{{--c:{_numbers(colour_of(number, dark))};'
                       f'--e:{_numbers(_rgb(number, _EDGES[dark], .6))}}}' for index, number in enumerate(numbers))
    return f'{rules(False)}\n@media(prefers-color-scheme:dark){{{rules(True)}}}\n' if numbers else ''


def _numbers(colour: Colour) -> str:
    return ' '.join(map(str, colour))


def escaped(text: str) -> str:
    """Returns text as escaped content of an element that preserves white space; control characters become U+XXXX."""
    return _SPECIAL.sub(_entity, text)


def _entity(match: re.Match[str]) -> str:
    text = match.group()
    return _ENTITIES.get(text) or f'<span class="code" title="U+{ord(text):04X}">U+{ord(text):04X}</span>'


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
    """Returns escaped text in which `shown(mark, escaped text)` replaces each mark; marks must be in order."""
    pieces, done = [], 0
    for mark in marks:
        pieces += [escaped(text[done:mark.begin]), shown(mark, escaped(text[mark.begin:mark.end]))]
        done = mark.end
    return ''.join([*pieces, escaped(text[done:])])


class Page:
    """A standalone HTML page, written in parts: `begin`, any number of `sentence`, `end`.

    Colours follow the light or dark theme of the reader. The strength of a colour shows the confidence. The number is
    in the title, in text for screen readers, and visible after ticking a checkbox. The page has no script and loads no
    files.

    Args:
        labels: all labels of marks, in the order of the legend; '' is a mark without a label.
        kind: kind of the marks: TAGS, SPANS or WORDS.
        confidence: whether marks have confidences.
    """

    def __init__(self, labels: Sequence[str], kind: str = SPANS, confidence: bool = False) -> None:
        self.numbers = {label: index for index, label in enumerate(labels)}
        self.kind, self.confidence = kind, confidence
        self.element = 'span' if kind == TAGS else 'mark'

    def begin(self, title: str) -> str:
        """Returns the beginning of the page: styles, heading and legend."""
        style = self.style()
        policy = f"default-src 'none'; style-src '{policy_hash(style)}'; base-uri 'none'; form-action 'none'"
        return Template(_BEGIN).substitute(policy=policy, title=_attribute(title), style=style, kind=self.kind,
                                           legend=self.legend(), switch=self.switch())

    def style(self) -> str:
        """Returns the style sheet of the page."""
        levels = ''.join(f'.s{level}{{--s:{level / LEVELS:g}}}' for level in range(LEVELS + 1))
        return f'\n{PALETTE}{colour_rules(self.numbers)}{asset(__file__, "page.css")}{levels}\n'

    def legend(self) -> str:
        """Returns the legend as a list of labels; '' if there are no labels."""
        items = [f'<li><{self.element} class="m t{index}">{_attribute(label) or "no type"}</{self.element}></li>\n'
                 for label, index in self.numbers.items()]
        if self.kind == WORDS or list(self.numbers) in ([], ['']):
            return ''
        name = 'Tags' if self.kind == TAGS else 'Types'
        return f'<ul class="legend" role="list" aria-label="{name}">\n{"".join(items)}</ul>\n'

    def switch(self) -> str:
        """Returns the checkbox that makes confidences visible; '' if marks have no confidences."""
        if not self.confidence:
            return ''
        # The checkbox is a sibling of the sentences, so that a CSS rule can depend on its state.
        return ('<input type="checkbox" id="figures"><label for="figures">Show confidences (stronger colours '
                'mean higher confidence)</label>\n')

    def sentence(self, text: str, marks: Iterable[Mark], confidence: float | None = None,
                 alternatives: Sequence[tuple[Iterable[Mark], float]] = ()) -> str:
        """Returns the HTML of a sentence, with collapsed alternatives below it.

        Args:
            text: the text of the sentence.
            marks: marks in order, without overlaps.
            confidence: confidence of all marks together.
            alternatives: (marks, confidence) of the n-best taggings, best first.
        """
        figure = '' if confidence is None else f'<bdi class="note figure"> sentence {confidence:.2f}</bdi>'
        folded = ''
        if alternatives:
            items = [f'<li>{other:.4f}<p class="text other" dir="auto">{_interleaved(text, others, self._shown)}'
                     '</p></li>\n' for others, other in alternatives]
            folded = (f'<details><summary lang="en">N-best taggings: {len(items)}</summary>\n'
                      f'<ol>\n{"".join(items)}</ol>\n</details>\n')
        return f'<p class="text" dir="auto">{_interleaved(text, marks, self._shown)}{figure}</p>\n{folded}'

    def _shown(self, mark: Mark, inside: str) -> str:
        strength = '' if mark.confidence is None else f' s{_level(mark.confidence)}'
        label = f'<bdi class="note">{_attribute(mark.label)}</bdi>' if mark.label else ''
        figure = '' if mark.confidence is None else f'<bdi class="note figure">&nbsp;{mark.confidence:.2f}</bdi>'
        return (f'<{self.element} class="m t{self.numbers[mark.label]}{strength}"{_title(mark)}>{inside}{label}{figure}'
                f'</{self.element}>')

    def end(self) -> str:
        """Returns the end of the page."""
        return _END


def policy_hash(source: str) -> str:
    """Returns the hash of an inline style sheet or script for a Content-Security-Policy."""
    return f'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'


def fragment(text: str, marks: Iterable[Mark]) -> str:
    """Returns text with marks as an HTML element to embed in other pages, with inline styles.

    Args:
        text: the text to show.
        marks: marks in order, without overlaps.
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
