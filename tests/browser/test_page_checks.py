"""The page checks that other tests use: a good page passes, and each fault of a page is detected."""

import struct

import pytest

from support.pages import CONTRASTS, check_page, opened, screenshot

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>A page</title>
<style>:root {{color-scheme: light dark}} {style}</style></head><body><main><h1>Title</h1>{body}</main></body></html>"""

WIDE = """.wide {overflow-x: auto; white-space: pre; background: linear-gradient(#fffa, transparent) local}
.wide::-webkit-scrollbar {height: 10px}
@media (prefers-color-scheme: dark) {.wide {background: linear-gradient(#000a, transparent) local}}"""


def write(folder, body, style=''):
    path = folder / 'page.html'
    path.write_text(PAGE.format(body=body, style=style), encoding='utf-8')
    return path


@pytest.mark.parametrize('body,style', [
    ('<p>text</p>', ''),
    ('<div class="wide" tabindex="0" role="region" aria-label="A line">' + 'wide ' * 90 + '</div>', WIDE),
    ('<svg width="90" height="40" role="img" aria-label="A bar"><rect width="90" height="40" fill="#222"/>'
     '<text x="5" y="25" fill="#fff">white</text></svg>', '')], ids=['text', 'what scrolls by itself', 'a picture'])
def test_page_checks_a_good_page_passes(browser, tmp_path, body, style):
    check_page(browser, write(tmp_path, body, style))


@pytest.mark.parametrize('body,style,message', [
    ('<p>pale</p>', 'p {background: #fff; color: #777}', "contrasts below 4.5 : 1: [('pale', 4.4"),
    ('<p>pale</p>', '@media (prefers-color-scheme: dark) {p {color: #777}}', 'contrasts below'),
    ('<p>pale</p>', 'p {opacity: .5}', 'contrasts below'),
    ('<details><summary>more</summary><p>pale</p></details>', 'p {background: #fff; color: #999}', 'contrasts below'),
    ('<svg width="90" height="40" role="img" aria-label="A bar"><rect width="90" height="40" fill="#eee"/>'
     '<text x="5" y="25" fill="#fff">white</text></svg>', '', 'contrasts below'),
    ('<p>over</p>', 'p {background-image: linear-gradient(red, blue)}', "contrasts below 4.5 : 1: [('over', 2.4"),
    ('<p>over</p>', 'p {background-image: url(data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=)}',
     "('over', None)"),
    ('<div tabindex="0" role="region" aria-label="A line">' + 'wide ' * 90 + '</div>',
     'div {overflow-x: auto; white-space: pre}', 'wider than their boxes'),
    ('<div class="wide" role="region" aria-label="A line">' + 'wide ' * 90 + '</div>', WIDE, 'wider than their boxes'),
    ('<div class="wide" tabindex="0">' + 'wide ' * 90 + '</div>', WIDE, 'wider than their boxes'),
    ('<p>' + 'wide ' * 90 + '</p>', 'p {overflow: hidden; white-space: pre}', 'wider than their boxes'),
    ('<p><span>a wide line</span></p>', 'span {display: block; width: 600px}', 'pixels of content in 390'),
    ('<p>a</p><script>console.warn("odd")</script>', '', "'warning: odd'"),
    ('<p>a</p><script>missing()</script>', '', "'error: missing is not defined'"),
    ('<p>a</p><script>alert(1)</script>', '', "'dialog: 1'"),
    ('<p>a</p><img alt="" src="other.png">', '', 'other.png'),
    ('<p>a</p><img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">', '', 'image-alt'),
], ids=['below the bar', 'in the dark', 'half opaque', 'folded', 'in a picture', 'on a gradient', 'on an image',
        'without a scrollbar', 'without focus', 'without a name', 'cut off', 'too wide', 'a warning',
        'a script', 'a dialog', 'a request', 'no text for an image'])
def test_page_checks_a_fault_is_seen(browser, tmp_path, body, style, message):
    with pytest.raises(AssertionError) as raised:
        check_page(browser, write(tmp_path, body, style))
    assert message in str(raised.value)


@pytest.mark.slow
def test_page_checks_contrasts_are_those_of_the_standard(browser, tmp_path):
    """The expected contrasts were computed manually from the WCAG formula (L1 + 0.05) / (L2 + 0.05)."""
    colours = {'black': ('#000', '#fff', 21), 'grey': ('#808080', '#fff', 3.95), 'red': ('#f00', '#fff', 4),
               'half': ('rgb(0 0 0 / 50%)', '#fff', 3.98)}
    body = ''.join(f'<p style="color: {ink}; background: {ground}">{name}</p>'
                   for name, (ink, ground, _) in colours.items())
    with opened(browser, write(tmp_path, body)) as page:
        found = dict(page.evaluate(CONTRASTS))
    assert found['black'] == pytest.approx(21, abs=.01)
    for name, (_, _, expected) in colours.items():
        assert found[name] == pytest.approx(expected, abs=.05), name


@pytest.mark.slow
def test_page_checks_a_screenshot_is_as_large_as_the_window(browser, tmp_path):
    path = write(tmp_path, '<p>text</p>')
    screenshot(browser, path, tmp_path / 'light.png', 390, 'light', 300)
    screenshot(browser, path, tmp_path / 'dark.png', 390, 'dark', 300)
    light, dark = ((tmp_path / f'{scheme}.png').read_bytes() for scheme in ('light', 'dark'))
    assert struct.unpack('>8s8xII', light[:24]) == (b'\x89PNG\r\n\x1a\n', 390, 300) and light != dark
