"""The page of `ms-crf report` in Chromium: a run with a CRF, and hidden Markov models with odd text side by side."""

import json

from ms_crf import report, train

import pytest

from pages import check_page, opened

MARKUP = '<script>document.title = "1"</script><img src=http://127.0.0.1/>'


@pytest.fixture
def write(tmp_path, capsys):
    """Makes a report in this process; returns the path of the page."""
    pytest.importorskip('matplotlib')

    def call(*arguments):
        path = tmp_path / 'page.html'
        assert report.main([*map(str, arguments), '--output', str(path)]) == 0
        return path
    return call


@pytest.mark.slow
def test_a_run_with_a_crf(browser, write, undisturbed):
    page = write(undisturbed[0])
    check_page(browser, page)
    with opened(browser, page, width=390) as shown:
        headings = shown.locator('h2').all_inner_texts()
        assert headings[0] == 'Scores' and 'Which tag follows which' in headings
        for picture in shown.locator('svg[role=img]').all():
            assert picture.bounding_box()['height'] > 50 and picture.get_attribute('aria-labelledby')
        # A link of the table of contents leads to its part of the page.
        shown.locator('nav a', has_text='Transitions').click()
        assert shown.locator('h2', has_text='Which tag follows which').bounding_box()['y'] < 100


def test_two_runs_with_text_that_is_markup(browser, write, tmp_path):
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
