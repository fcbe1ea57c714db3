"""The server's web page in Chromium: with mouse and keyboard, on a phone, with a token, without JavaScript."""

import re
import signal

from ms_crf import Tagger
from ms_crf.cli import train

import pytest

from support.pages import SCHEMES, WIDTHS, check_view, opened, unfold
from support.servers import serving
from support.trainings import files

pytestmark = pytest.mark.slow

TEXT = 'to Xan Yel in\nby <b>abracadabra</b> & Zoe \u05e9\u05dc\u05d5\u05dd'


def tag(page, text=TEXT):
    page.get_by_label('Text').fill(text)
    page.get_by_role('button', name='Tag').click()
    page.get_by_text(re.compile(r'^\d+ sentences?$')).wait_for()


@pytest.mark.parametrize('width', WIDTHS)
@pytest.mark.parametrize('scheme', SCHEMES)
def test_server_page_the_page_is_sound_before_and_after(browser, network_server, width, scheme):
    with opened(browser, network_server[1].address, width, scheme) as page:
        check_view(page)
        page.get_by_label('Taggings of each sentence').select_option('3')
        tag(page)
        assert unfold(page)
        check_view(page)


def test_server_page_marks_are_the_spans_of_a_tagger(browser, network_server):
    expected = []
    for one in Tagger.load(network_server[0]).tag_text(TEXT, splitter='blanks'):
        expected += [(TEXT[entity.start:entity.end], entity.type) for entity in one.entities]
    with opened(browser, network_server[1].address) as page:
        tag(page)
        marks = [(mark.evaluate('mark => mark.firstChild.data'), mark.locator('.note').first.inner_text())
                 for mark in page.locator('#result > p mark').all()]
        assert marks == expected and expected
        assert page.get_by_role('status').inner_text() == '2 sentences'
        shown = page.locator('#result > p').evaluate_all(
            "ps => ps.map(p => { p = p.cloneNode(true); p.querySelectorAll('.note').forEach(n => n.remove());"
            ' return p.textContent; })')
        assert shown == TEXT.split('\n')


def test_server_page_by_keyboard_alone(browser, network_server):
    with opened(browser, network_server[1].address) as page:
        page.keyboard.press('Tab')
        page.keyboard.type('to Xan Yel')
        page.keyboard.press('Tab')
        page.keyboard.press('ArrowDown')
        page.keyboard.press('Tab')
        page.keyboard.press('Enter')
        page.get_by_text('1 sentence', exact=True).wait_for()
        assert page.locator('#result summary').inner_text() == 'N-best taggings: 2'
        page.keyboard.press('Shift+Tab')
        page.keyboard.press('Shift+Tab')
        page.keyboard.type('in\nby')
        page.keyboard.press('Control+Enter')
        page.get_by_text('2 sentences', exact=True).wait_for()


def test_server_page_without_its_script_it_says_so(browser, network_server):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(network_server[1].address)
        assert 'This page needs JavaScript' in page.locator('main').inner_text()
        assert page.get_by_role('button', name='Tag').is_disabled()


def test_server_page_faults_are_said_on_the_page(browser, corpora, tmp_path):
    """The page asks for a token when the server demands one, and shows the server's message about long text."""
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(tmp_path / 'run')]) == 0
    (tmp_path / 'token').write_text('secret')
    with serving('--run', tmp_path / 'run', '--splitter', 'blanks', '--token-file', tmp_path / 'token',
                 '--max-length', '5') as server, browser.new_context() as context:
        page = context.new_page()
        page.goto(server.address)
        assert page.get_by_label('Token').is_hidden() and page.locator('option').count() == 1
        page.get_by_label('Text').fill('to Xan')
        page.get_by_role('button', name='Tag').click()
        page.get_by_label('Token').fill('secret')        # waits until the field appears
        assert 'Authorization: Bearer TOKEN' in page.get_by_role('status').inner_text()
        tag(page, 'to Xan')
        page.get_by_label('Text').fill('a b c d e f')
        page.keyboard.press('Control+Enter')
        page.get_by_text('expected sentences of at most 5 tokens, got 6 in sentence 0').wait_for()


def test_server_page_a_page_of_an_earlier_model_says_so(browser, corpora, tmp_path):
    """After the server loads another model, an open page asks to be reloaded, because its colours may be wrong."""
    assert train.main([*files(corpora), '--model', 'hmm', '--save', str(tmp_path / 'run')]) == 0
    with serving('--run', tmp_path / 'run', '--splitter', 'blanks') as server, opened(browser, server.address) as page:
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('the model was reloaded')
        page.get_by_label('Text').fill('to Xan')
        page.get_by_role('button', name='Tag').click()
        page.get_by_text('The server has loaded another model. Reload this page.').wait_for()
        page.reload()
        tag(page, 'to Xan')
