"""The page of `ms-crf report` in Chromium: a run with a CRF, and a comparison of two runs whose text is markup."""

import io
import json
import re

from ms_crf.cli import infer, report, train

import numpy as np
import pytest

from support.pages import check_page, chromium, opened

MARKUP = '<script>document.title = "1"</script><img src=http://127.0.0.1/>'


@pytest.fixture
def write(tmp_path, capsys):
    """Writes a report in this process; returns the path of the page."""
    pytest.importorskip('matplotlib')

    def call(*arguments):
        path = tmp_path / 'page.html'
        assert report.main([*map(str, arguments), '--output', str(path)]) == 0
        return path
    return call


@pytest.mark.slow
def test_report_in_browser_a_run_with_a_crf(browser, write, undisturbed):
    page = write(undisturbed[0])
    check_page(browser, page)
    with opened(browser, page, width=390) as shown:
        headings = shown.locator('h2').all_inner_texts()
        assert headings[0] == 'Scores' and 'Transitions' in headings
        for picture in shown.locator('svg[role=img]').all():
            assert picture.bounding_box()['height'] > 50 and picture.get_attribute('aria-labelledby')
        # A link in the table of contents leads to its section.
        shown.locator('nav a', has_text='Transitions').click()
        assert shown.locator('h2', has_text='Transitions').bounding_box()['y'] < 100


@pytest.mark.slow
def test_report_in_browser_two_runs_with_text_that_is_markup(browser, write, tmp_path):
    rows = [{'tokens': ['to', MARKUP, 'Xan', '\u202eabc', '\u05e9\u05dc\u05d5\u05dd'],
             'tags': ['O', 'B-<b>', 'I-<b>', 'O', 'O']},
            {'tokens': ['of', '😀' * 40, 'x' * 300], 'tags': ['O', 'B-LONG_NAME_OF_A_TYPE_' + 'y' * 40, 'O']}] * 3
    path, other = tmp_path / 'a.jsonl', tmp_path / 'b.jsonl'
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    other.write_text(''.join(json.dumps({**row, 'tags': ['O'] * (len(row['tags']) - 1) + ['B-<b>']}) + '\n'
                             for row in rows))
    runs = []
    for number, corpus in enumerate((path, other)):
        runs.append(tmp_path / f'run{number}')
        assert train.main(['--model', 'hmm', '--train', str(corpus), '--dev', str(path), '--test', str(path), '--save',
                           str(runs[-1])]) == 0
    check_page(browser, write(*runs))
    page = write(runs[1])
    check_page(browser, page)
    with opened(browser, page) as shown:
        assert shown.locator('script').count() == 0 and shown.locator('img').count() == 0
        assert shown.title() != '1' and MARKUP in shown.locator('body').inner_text()


def pixels(locator):
    """The painted pixels of an element: (height, width, 3), from 0 to 255."""
    pyplot = pytest.importorskip('matplotlib.image')
    return np.round(255 * pyplot.imread(io.BytesIO(locator.screenshot()))[:, :, :3]).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_report_in_browser_plots_are_painted_in_the_colours_of_the_page(browser, write, undisturbed, scheme):
    page = write(undisturbed[0])
    with opened(browser, page, scheme=scheme) as shown:
        ground = [int(part) for part in re.findall(r'\d+', shown.evaluate(
            'getComputedStyle(document.body).backgroundColor'))]
        assert (sum(ground) < 150) == (scheme == 'dark')
        plots = shown.locator('svg[role=img]').all()
        assert len(plots) == 3
        for plot in plots:
            painted = pixels(plot)
            for corner in (painted[2, 2], painted[-3, 2], painted[2, -3], painted[-3, -3]):
                assert np.abs(corner - ground).max() <= 1
            same = (np.abs(painted - ground).max(2) <= 1).mean()
            light = (painted.min(2) >= 230).mean()
            assert same > .3 and (scheme == 'light' or light < .1)        # only letters and grid, no white areas
            # Some pixels contrast strongly with the background, so text is painted.
            extreme = painted.mean(2).max() if scheme == 'dark' else painted.mean(2).min()
            assert extreme > 200 if scheme == 'dark' else extreme < 60
    # `check_page` asserts the contrasts of all texts in plots, from computed colours.


@pytest.fixture
def mistaken(tmp_path):
    """A hidden Markov model of several types, and a test file with other types, so the errors show all types."""
    types = ['MISC', 'PER', 'LOC', 'a type of its own']
    for name, tags in (('train', types), ('test', types[1:] + types[:1])):
        rows = [{'tokens': ['to', f'Xan{index}'], 'tags': ['O', f'B-{kind}']} for index, kind in enumerate(tags)]
        (tmp_path / f'{name}.jsonl').write_text(''.join(json.dumps(row) + '\n' for row in rows * 3))
    run, test = tmp_path / 'run', str(tmp_path / 'test.jsonl')
    assert train.main(['--model', 'hmm', '--train', str(tmp_path / 'train.jsonl'), '--dev', test, '--test', test,
                       '--save', str(run)]) == 0
    return run


@pytest.mark.slow
def test_report_in_browser_a_type_has_one_colour_in_a_report_and_on_a_tagged_page(browser, write, mistaken, tmp_path):
    page, tagged = write(mistaken), tmp_path / 'tagged.html'
    assert infer.main(['--run', str(mistaken), '--text', 'to Xan1', '--format', 'html', '--output', str(tagged)]) == 0
    check_page(browser, page)
    for scheme in ('light', 'dark'):
        with opened(browser, page, scheme=scheme) as shown:
            marks = shown.locator('mark').evaluate_all(
                "all => all.map(each => [each.querySelector('small').textContent.replace(/ \\d.*| .wrong.*/, ''),"
                " getComputedStyle(each).backgroundColor, getComputedStyle(each).borderBottomColor])")
            of_report = {kind: colours for kind, *colours in marks}
        with opened(browser, tagged, scheme=scheme) as shown:
            of_page = dict(shown.locator('.legend mark').evaluate_all(
                "all => all.map(each => [each.textContent, [getComputedStyle(each).backgroundColor,"
                " getComputedStyle(each).borderBottomColor]])"))
        assert len(of_report) == 4 and of_report == of_page


@pytest.mark.slow
def test_report_in_browser_wide_tables_scroll_by_keyboard_with_a_scrollbar_and_a_shadow(browser, write, mistaken):
    page = write(mistaken)
    # By default Playwright hides all scrollbars.
    with (browser.browser_type.launch(executable_path=chromium(), ignore_default_args=['--hide-scrollbars']) as visible,
          opened(visible, page, width=390) as shown):
        box = shown.get_by_role('region', name='Scores by type')
        content, width, bar = box.evaluate('box => [box.scrollWidth, box.clientWidth, '
                                           'box.offsetHeight - box.clientHeight]')
        assert content > width and bar >= 10
        begin = pixels(box)
        box.focus()
        for _ in range(50):
            shown.keyboard.press('ArrowRight')
        shown.wait_for_function('box => box.scrollLeft + box.clientWidth >= box.scrollWidth - 1',
                                arg=box.element_handle(), timeout=10_000)
        box.evaluate('box => box.blur()')
        end = pixels(box)
        # The thumb of the scrollbar has moved from left to right; the shadow is on the side that hides more content.
        assert begin[-6, 20].mean() < begin[-6, -20].mean() and end[-6, 20].mean() > end[-6, -20].mean()
        row = begin.shape[0] // 2 + 8
        assert begin[row - 20:row, -1].mean(1).max() < 250 and begin[row - 20:row, 3].mean(1).max() > 250
        assert shown.evaluate('[document.documentElement.scrollLeft, document.documentElement.scrollWidth - '
                              'document.documentElement.clientWidth]') == [0, 0]
