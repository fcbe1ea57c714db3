"""Draws plots as SVG for an HTML page. The SVG loads nothing, and the same figures always give the same text.

Colours in the SVG are variables of the page's style sheet, so plots follow the light or dark theme. Backgrounds are
transparent. matplotlib has no variables: it draws with a colour code for each variable, and `_svg` replaces the codes.
"""

import contextlib
import importlib
import io
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from ms_crf.base.errors import not_installed
from ms_crf.models.chains import LOGARITHMS, Chain
from ms_crf.render.html import THEMES as PALETTES
from ms_crf.render.html import rgb
from ms_crf.reports.analysis import Reliability

import numpy as np

#: libraries that are only used for reports
LIBRARIES = ('jinja2', 'matplotlib')
_BACKEND = 'MPLBACKEND'        # matplotlib cannot be imported if this names an unknown backend
STEPS = 11                                 # number of colours in the plot of transitions
#: colour variables of the page that plots use
INK, SOFT, LINE, PAGE = 'ink', 'soft', 'line', 'page'
#: colour variables of curves, with a contrast of at least 4.5 : 1 on the page
CURVES = tuple(f'curve-{number}' for number in range(6))
BLUE, *_ = CURVES
SCALE, LOG_SCALE = (tuple(f'{name}-{step}' for step in range(STEPS)) for name in ('score', 'log'))
MARKS = 'os^Dvx'
_QUOTE = {'"': '&quot;'}
MOST_TAGS, MOST_NUMBERS = 60, 14           # largest number of tags for a plot of transitions, and for numbers in it


def library(name: str) -> Any:
    """Imports a library of reports, or one of its modules; raises OptionError if the library is not installed."""
    # matplotlib logs messages about its font cache and about the user's settings.
    logging.getLogger('matplotlib').setLevel(logging.CRITICAL + 1)
    before = os.environ.pop(_BACKEND, None)
    try:
        return importlib.import_module(name)
    except ImportError:
        raise not_installed('a report', name.partition('.')[0], 'report') from None
    finally:
        if before is not None:
            os.environ[_BACKEND] = before


def _mixed(one: str, other: str, share: float) -> str:
    return '#' + ''.join(f'{round(low + share * (high - low)):02x}' for low, high in zip(rgb(one), rgb(other)))


def _readable_on(colour: str) -> str:
    """Returns black or white, whichever has more contrast with a colour: at least 4.5 : 1."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
                        for part in (part / 255 for part in rgb(colour)))
    return '#000000' if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else '#ffffff'


def _scales(dark: bool) -> dict[str, str]:
    """Returns the colours of the scales in the plot of transitions, and of the numbers on these colours."""
    colours: dict[str, str] = {}
    low, middle, high = (PALETTES[dark][name] for name in ('low', 'middle', 'high'))
    half = STEPS // 2
    for step in range(STEPS):
        colours[SCALE[step]] = (_mixed(low, middle, step / half) if step < half
                                else _mixed(middle, high, (step - half) / half))
        colours[LOG_SCALE[step]] = _mixed(middle, low, step / (STEPS - 1))
    return colours | {f'on-{name}': _readable_on(colours[name]) for name in (*SCALE, *LOG_SCALE)}


#: the variables that plots add to the palette, light and dark
THEMES = (_scales(False), _scales(True))
_VARIABLES = (INK, SOFT, LINE, PAGE, *CURVES, 'hatch', *THEMES[0])


def style() -> str:
    """Returns a style sheet with the colours that plots add to the palette in both themes."""
    light, dark = (''.join(f'--{name}:{value};' for name, value in theme.items()) for theme in THEMES)
    return f':root{{{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}'


def _code(name: str) -> str:
    """Returns the colour code that represents a variable in matplotlib; never black, which matplotlib omits in SVG."""
    return f'#{_VARIABLES.index(name) + 1:06x}'


_OPTIONS = {'svg.fonttype': 'none', 'svg.hashsalt': 'ms_crf', 'text.parse_math': False, 'font.size': 10,
            'font.family': ['sans-serif'], 'font.sans-serif': ['DejaVu Sans', 'Arial', 'sans-serif'],
            'axes.grid': True, 'axes.axisbelow': True, 'axes.unicode_minus': False, 'hatch.linewidth': 0.8,
            'figure.dpi': 72, 'figure.facecolor': 'none', 'axes.facecolor': 'none', 'text.color': _code(INK),
            'axes.labelcolor': _code(INK), 'axes.edgecolor': _code(SOFT), 'xtick.color': _code(SOFT),
            'ytick.color': _code(SOFT), 'xtick.labelcolor': _code(INK), 'ytick.labelcolor': _code(INK),
            'grid.color': _code(LINE), 'hatch.color': _code('hatch'), 'legend.facecolor': _code(PAGE),
            'legend.edgecolor': _code(LINE), 'legend.framealpha': 1}


@contextlib.contextmanager
def _drawing(width: float, height: float) -> Iterator[Any]:
    """Yields a new figure of this size in inches, and ignores the matplotlib settings of the user."""
    matplotlib, figure = library('matplotlib'), library('matplotlib.figure')
    # No warnings about letters that the font does not have: the browser selects a font.
    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.simplefilter('ignore')
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_OPTIONS)
        yield figure.Figure(figsize=(width, height), layout='constrained')


def _svg(figure: Any, name: str, title: str, description: str) -> str:
    """Returns the SVG of a plot, with a title and a description for screen readers.

    Args:
        figure: the drawn figure.
        name: name of the plot in its page, a prefix of all ids in the SVG.
        title, description: plain text.
    """
    file = io.StringIO()
    figure.savefig(file, format='svg', metadata={'Date': None, 'Creator': None, 'Format': None, 'Type': None})
    text = file.getvalue()
    text = text[text.index('<svg'):]
    text = re.sub(r'<metadata>.*?</metadata>|<style.*?</style>', '', text, flags=re.S)
    # Change tags only: names of types and runs can contain any text.
    text = re.sub(r'<[^>]*>', lambda tag: _adapted(tag.group(), name), text)
    opening, _, content = text.partition('>')
    box, = re.findall(r' viewBox="[^"]*"', opening)
    parts = [f'<svg class="drawn"{box} style="width:{figure.get_figwidth() * 96:.0f}px" role="img" '
             f'aria-labelledby="{name}-title {name}-description">',
             f'<title id="{name}-title">{escape(title, _QUOTE)}</title>',
             f'<desc id="{name}-description">{escape(description, _QUOTE)}</desc>', content.strip()]
    return '\n'.join(parts)


def _adapted(tag: str, name: str) -> str:
    """Returns an SVG tag with prefixed ids, and with variables in place of colour codes."""
    tag = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', tag)
    tag = re.sub(r'(xlink:)?href="#([^"]*)"', rf'href="#{name}-\2"', tag)
    tag = re.sub(r'url\(#([^)]*)\)', rf'url(#{name}-\1)', tag)
    return re.sub(r'((?:fill|stroke)(?:: |="))#0000([0-9a-f]{2})\b',
                  lambda match: f'{match[1]}var(--{_VARIABLES[int(match[2], 16) - 1]})', tag)


def learning_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], score: str, name: str) -> str:
    """Draws learning curves: loss, dev score and learning rate by epoch, with the best epoch marked.

    Args:
        runs: the records of metrics.jsonl of each run, by name of the run.
        score: the key of the score that chooses the best epoch.
        name: name of the plot.
    """
    keys = [('loss', 'loss'), (score, f'{score if score != "f1" else "F1"} on dev')]
    if any('learning_rate' in record for records in runs.values() for record in records):
        keys.append(('learning_rate', 'learning rate'))
    words = []
    with _drawing(9, 3) as figure:
        for axis, (key, label) in zip(figure.subplots(1, len(keys)), keys):
            for index, (run, metrics) in enumerate(runs.items()):
                colour, mark = _curve(index), MARKS[index % len(MARKS)]
                points = [(record['epoch'], record[key]) for record in metrics if key in record]
                if not points:
                    continue
                axis.plot(*zip(*points), color=colour, marker=mark, markersize=3, label=run if len(runs) > 1 else None)
                best = best_of(metrics)
                if best is not None and key in best:
                    axis.plot([best['epoch']], [best[key]], 'o', color=colour, markersize=9, fillstyle='none')
                words.append(f'{label}{f" of {run}" if len(runs) > 1 else ""}: {points[0][1]:.4g} in epoch '
                             f'{points[0][0]}, {points[-1][1]:.4g} in epoch {points[-1][0]}')
            axis.set_xlabel('epoch')
            axis.set_title(label, fontsize=10)
            axis.xaxis.get_major_locator().set_params(integer=True)
        if len(runs) > 1:
            figure.legend(*figure.axes[0].get_legend_handles_labels(), loc='outside lower center', ncols=3)
        best_words = [f'best epoch{f" of {run}" if len(runs) > 1 else ""}: {best["epoch"]}'
                      for run, metrics in runs.items() if (best := best_of(metrics)) is not None]
        return _svg(figure, name, 'Learning curves', f'{"; ".join([*words, *best_words])}.')


def _curve(number: int) -> str:
    return _code(CURVES[number % len(CURVES)])


def best_of(metrics: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the record of the best epoch: the last record that is marked as best."""
    return next((record for record in reversed(metrics) if record.get('best')), None)


def transition_plot(chain: Chain, tags: Sequence[str], name: str) -> str:
    """Draws the transition, start and end scores of a chain, with forbidden transitions hatched."""
    size = len(tags)
    values = np.full((size + 1, size + 1), np.nan)               # rows: start, then tags; columns: tags, then end
    values[0, :size], values[1:, :size], values[1:, size] = chain.start, chain.transitions, chain.end
    values[~np.isfinite(values)] = np.nan
    allowed = np.isfinite(values)
    if chain.allowed is not None:
        allowed[0, :size] &= chain.allowed.start
        allowed[1:, :size] &= chain.allowed.transitions
        allowed[1:, size] &= chain.allowed.end
    rows, columns = ['start', *tags], [*tags, 'end']
    logarithms = chain.means == LOGARITHMS
    inches = max(4.5, 1.8 + (0.55 if size <= MOST_NUMBERS else 0.3) * (size + 1))
    with _drawing(inches + 0.6, inches) as figure:
        axis = figure.subplots()
        scale = LOG_SCALE if logarithms else SCALE
        colours = library('matplotlib.colors').ListedColormap(list(map(_code, scale)))
        shown = np.ma.masked_where(~allowed, values)
        largest = max(float(np.abs(shown).max()), 1e-9) if allowed.any() else 1.0
        limits = (float(shown.min()), 0.0) if logarithms and allowed.any() else (-largest, largest)
        mesh = axis.pcolormesh(shown, cmap=colours, vmin=limits[0], vmax=limits[1], edgecolors=_code(PAGE),
                               linewidth=0.5)
        axis.grid(False)
        patches = library('matplotlib.patches')
        for row, column in zip(*np.nonzero(~allowed)):
            if (row, column) != (0, size):
                axis.add_patch(patches.Rectangle((column, row), 1, 1, facecolor=_code(PAGE), edgecolor=_code('hatch'),
                                                 hatch='////', linewidth=0))
        if size <= MOST_NUMBERS:
            for row, column in zip(*np.nonzero(allowed)):
                value = values[row, column]
                step = min(STEPS - 1, int(mesh.norm(value) * STEPS))         # as in the colour map
                axis.text(column + 0.5, row + 0.5, f'{round(value, 1) + 0.0:.1f}', ha='center', va='center', fontsize=8,
                          color=_code(f'on-{scale[step]}'))
        axis.set_xticks(np.arange(size + 1) + 0.5, columns, rotation=90)
        axis.set_yticks(np.arange(size + 1) + 0.5, rows)
        axis.tick_params(length=0)
        axis.invert_yaxis()
        axis.set_xlabel('next tag')
        axis.set_ylabel('tag')
        figure.colorbar(mesh, ax=axis, shrink=0.7, label='log probability' if logarithms else 'score')
        ranked = sorted(((float(values[row, column]), rows[row], columns[column])
                         for row, column in zip(*np.nonzero(allowed))), key=lambda entry: -entry[0])
        high, low = (', '.join(f'{one} to {other} {value:.1f}' for value, one, other in part)
                     for part in (ranked[:5], ranked[:-6:-1]))
        return _svg(figure, name, 'Transition scores' if not logarithms else 'Log probabilities of transitions',
                    f'{int((~allowed).sum()) - 1} of {size * (size + 2)} transitions are forbidden. The highest '
                    f'scores: {high}. The lowest scores of allowed transitions: {low}.')


def reliability_diagrams(panels: Mapping[str, Sequence[tuple[str, Reliability]]], name: str) -> str:
    """Draws reliability diagrams: accuracy by confidence, and the number of predictions by confidence.

    Args:
        panels: the curves of each panel as (label, calibration), by title of the panel.
        name: name of the plot.
    """
    words = []
    with _drawing(4.5 * len(panels), 5) as figure:
        axes = figure.subplots(2, len(panels), squeeze=False, sharex=True, height_ratios=(3, 1))
        for column, (unit, curves) in enumerate(panels.items()):
            axis, below = axes[:, column]
            axis.plot([0, 1], [0, 1], color=_code(SOFT), linestyle='--', linewidth=1, label='perfect')
            width = 0.08 / max(1, len(curves))
            for index, (label, curve) in enumerate(curves):
                filled = [each for each in curve.bins if each.number]
                axis.plot([each.confidence for each in filled], [each.accuracy for each in filled], marker=MARKS[index],
                          color=_curve(index), markersize=5, label=label)
                below.bar([(each.low + each.high) / 2 + (index - (len(curves) - 1) / 2) * width for each in curve.bins],
                          [each.number for each in curve.bins], width, color=_curve(index))
                words.append(f'{unit}, {label}: expected calibration error {curve.ece:.4f}; ' + ', '.join(
                    f'accuracy {each.accuracy:.2f} of {each.number} at confidence {each.confidence:.2f}'
                    for each in filled))
            axis.set_title(unit, fontsize=10)
            axis.set_ylabel('accuracy')
            axis.set_ylim(-0.02, 1.02)
            axis.legend(fontsize=9, loc='upper left')
            below.set_xlabel('confidence')
            below.set_ylabel('number')
            below.set_yscale('symlog')
            below.yaxis.set_major_formatter(lambda value, _: f'{value:,.0f}')
            below.yaxis.minorticks_off()
        return _svg(figure, name, 'Reliability diagrams', f'{". ".join(words)}.')


def interval_plot(rows: Sequence[tuple[str, float, tuple[float, float] | None]], name: str) -> str:
    """Draws F1 by type with confidence intervals.

    Args:
        rows: (name of the type, F1, interval), with values from 0 to 1.
        name: name of the plot.
    """
    with _drawing(7, 1 + 0.32 * len(rows)) as figure:
        axis = figure.subplots()
        for row, (_, value, interval) in enumerate(rows):
            if interval is not None:
                axis.plot([100 * interval[0], 100 * interval[1]], [row, row], color=_code(BLUE), linewidth=2)
            axis.plot([100 * value], [row], 'o', color=_code(BLUE if row else INK))
        axis.set_yticks(range(len(rows)), [label for label, _, _ in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(-2, 102)
        axis.set_xlabel('F1 with 95 % interval')
        words = '; '.join(f'{label} {100 * value:.2f}' + (f', {100 * interval[0]:.2f} to {100 * interval[1]:.2f}'
                                                          if interval else '') for label, value, interval in rows)
        return _svg(figure, name, 'F1 by type', f'{words}.')
