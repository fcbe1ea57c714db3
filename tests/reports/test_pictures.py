"""Pictures and colours of reports: hatching of forbidden transitions, contrast, and descriptions in words."""

import importlib.util
import re

from ms_crf.models.chains import LOGARITHMS, SCORES, Chain
from ms_crf.reports import pictures
from ms_crf.reports.analysis import Confidences, reliability
from ms_crf.text.schemes import allowed_transitions

import numpy as np
import pytest

from support.paths import ROOT

if importlib.util.find_spec('matplotlib') is None:               # an import would take long
    pytest.skip('matplotlib is missing: pip install -r requirements-report.txt', allow_module_level=True)
TAGS = ['O', 'B-X', 'I-X']
RNG = np.random.default_rng(1)


def luminance(colour):
    """The relative luminance of a colour '#rrggbb', as WCAG defines it."""
    parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def resolved(svg, dark=False):
    """A picture whose CSS variables are replaced by the colours that the page of a report defines."""
    palette = (ROOT / 'ms_crf' / 'render' / 'palette.css').read_text(encoding='utf-8')
    themes = [re.findall(r':root ?\{([^}]*)\}', text)[dark] for text in (palette, pictures.style())]
    colours = dict(re.findall(r'--([a-z0-9-]+): ?(#[0-9a-f]{6});', ''.join(themes)))
    return re.sub(r'var\(--([^)]*)\)', lambda match: colours[match[1]], svg)


def chain(allowed, means=SCORES, size=3):
    values = RNG.normal(size=(size + 2, size)) * 2
    if means == LOGARITHMS:
        values = -np.abs(values)
    return Chain(values[2:], values[0], values[1], allowed, means)


def test_pictures_contrast_of_known_colours():
    assert contrast('#000000', '#ffffff') == pytest.approx(21) and contrast('#777777', '#ffffff') == pytest.approx(
        4.48, abs=0.01)


@pytest.mark.slow
def test_pictures_what_is_forbidden_is_hatched():
    """Forbidden and impossible transitions are hatched: with BIO, I-X after O and at the start are 2 of 15."""
    svg = pictures.transition_plot(chain(allowed_transitions('BIO', TAGS)), TAGS, 'here')
    hatched = re.findall(r'style="fill: url\(#here-h', svg)
    assert len(hatched) == 2 and '2 of 15 transitions are forbidden' in svg
    assert not re.search(r'url\(#here-h', pictures.transition_plot(chain(None), TAGS, 'here'))
    impossible = chain(None, LOGARITHMS)
    impossible.transitions[0, 1] = -np.inf
    svg = pictures.transition_plot(impossible, TAGS, 'here')
    assert len(re.findall(r'style="fill: url\(#here-h', svg)) == 1 and 'nan' not in svg and 'inf' not in svg.lower()


@pytest.mark.slow
@pytest.mark.parametrize('dark', [False, True])
@pytest.mark.parametrize('means', [SCORES, LOGARITHMS])
def test_pictures_figures_stand_out_from_their_cells(means, dark):
    tags = [f'T{number}' for number in range(12)]
    given = chain(None, means, 12)
    drawn = pictures.transition_plot(given, tags, 'here')
    edge = re.search('#[0-9a-f]{6}', resolved('var(--page)', dark)).group()
    svg = resolved(drawn, dark)
    cells = re.findall(rf'style="fill: (#[0-9a-f]{{6}}); stroke: {edge}', svg)
    texts = re.findall(r'<text style="[^"]*?fill: (#[0-9a-f]{6})[^"]*"[^>]*>(-?\d+\.\d)</text>', svg)
    values = [*given.start, *(value for row, end in zip(given.transitions, given.end) for value in (*row, end))]
    assert [text for _, text in texts][:len(values)] == [f'{round(value, 1) + 0.0:.1f}' for value in values]
    # matplotlib's QuadMesh writes the cells row by row; the cell from start to end has no number.
    colours = [*cells[:12], *cells[len(cells) - 12 * 13:]]
    assert len(colours) == len(values) and len(set(colours)) > 5
    for (colour, _), cell in zip(texts, colours):
        assert contrast(colour, cell) >= 4.5


@pytest.mark.parametrize('dark', [False, True])
def test_pictures_colours_of_lines_stand_out(dark):
    page = resolved('var(--page)', dark)
    assert all(contrast(resolved(f'var(--{name})', dark), page) >= 4.5 for name in (*pictures.CURVES, 'ink', 'soft'))
    assert contrast(resolved('var(--hatch)', dark), page) >= 3


@pytest.mark.slow
@pytest.mark.parametrize('label', ['stroke: #000005', 'fill="#000005"', ' id="x" href="#y" url(#z)', '$x^2$ <b>&'])
def test_pictures_colours_are_all_of_the_page_and_names_stay(label):
    """Pictures have no fixed colours, so they follow the theme; a label that looks like a colour stays unchanged."""
    tags = ['O', f'B-{label}', f'I-{label}']
    outcomes = Confidences(RNG.random(200), RNG.random(200) < 0.5)
    metrics = [{'epoch': 1, 'loss': 3.0, 'f1': 0.2, 'best': True}, {'epoch': 2, 'loss': 1.5, 'f1': 0.1, 'best': False}]
    for svg in (pictures.learning_curves({label: metrics, 'other': metrics}, 'f1', 'a'),
                pictures.transition_plot(chain(allowed_transitions('BIO', tags)), tags, 'b'),
                pictures.reliability_diagrams({'tokens': [(label, reliability(outcomes))] * 2}, 'c'),
                pictures.interval_plot([(label, 0.5, (0.4, 0.6)), ('Y', 0.1, None)], 'd')):
        elements = ''.join(re.findall('<[^>]*>', svg))
        assert 'var(--ink)' in elements and not re.search('[:"] ?(#[0-9a-f]{3}|rgb|white|black)', elements)
        escaped = label.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')
        assert f'{escaped}</text>' in svg
        resolved(svg)                                             # fails if the page lacks a variable


def test_pictures_colours_of_the_page_stand_out_in_light_and_in_dark():
    text = (ROOT / 'ms_crf' / 'render' / 'palette.css').read_text(encoding='utf-8')
    themes = [dict(re.findall(r'--([a-z0-9-]+): (#[0-9a-f]{6});', block)) for block in re.findall(
        r':root \{([^}]*)\}', text)]
    assert len(themes) == 2 and themes[0].keys() == themes[1].keys()
    for theme in themes:
        for name in ('ink', 'soft', 'link'):
            for below in ('page', 'raised'):
                assert contrast(theme[name], theme[below]) >= 4.5, (name, below)
        assert contrast(theme['hot-ink'], theme['hot']) >= 4.5
        assert contrast(theme['wrong'], theme['page']) >= 3


@pytest.mark.slow
def test_pictures_are_the_same_each_time_and_share_no_names():
    outcomes = Confidences(RNG.random(200), RNG.random(200) < 0.5)
    metrics = [{'epoch': 1, 'loss': 3.0, 'f1': 0.2, 'best': True}, {'epoch': 2, 'loss': 1.5, 'f1': 0.1, 'best': False}]
    given = chain(allowed_transitions('BIO', TAGS))

    def draw(name):
        return [pictures.learning_curves({'run': metrics}, 'f1', f'{name}-1'),
                pictures.transition_plot(given, TAGS, f'{name}-2'),
                pictures.reliability_diagrams({'tokens': [('as it is', reliability(outcomes))]}, f'{name}-3'),
                pictures.interval_plot([('X', 0.5, (0.4, 0.6)), ('Y', 0.1, None)], f'{name}-4')]
    first, again = draw('a'), draw('a')
    assert first == again
    ids = [re.findall(r' id="([^"]*)"', svg) for svg in first + draw('b')]
    assert len({name for names in ids for name in names}) == sum(map(len, ids))
    assert all(not re.search('http|xlink|<style|<metadata|<image', svg) for svg in first)
    assert 'loss: 3 in epoch 1, 1.5 in epoch 2; F1 on dev: 0.2 in epoch 1, 0.1 in epoch 2; best epoch: 1.' in first[0]
    assert 'X 50.00, 40.00 to 60.00; Y 10.00.' in first[3]


def test_pictures_names_are_drawn_as_they_are():
    svg = pictures.interval_plot([('$x^2$ <b>&', 0.5, None), ('人名', 0.5, None)], 'here')
    assert '>$x^2$ &lt;b&gt;&amp;</text>' in svg and '>人名</text>' in svg and '<b>' not in svg
