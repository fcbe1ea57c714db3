"""Checks of HTML pages in headless Chromium.

    def test_a_page(browser, tmp_path):
        ...
        check_page(browser, path)                            # general checks, at two widths, light and dark
        with opened(browser, path, width=390) as page:       # a page of Playwright, for specific checks
            assert page.locator('h1').inner_text() == 'Title'

`browser` is a fixture of tests/conftest.py: Chromium, started once for each test file.
"""

import shutil
from contextlib import contextmanager
from pathlib import Path

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
WIDTHS, SCHEMES = (1280, 390), ('light', 'dark')
CONTRAST = 4.5

#: Script that returns [text, contrast] for each visible text: its contrast with its background, by the formula of WCAG.
#: Colours are computed styles, or the fill of SVG shapes. A gradient counts with its worst colour. The contrast is null
#: if the background is an image file.
CONTRASTS = r"""
() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const luminance = colour => {
    const [r, g, b] = colour.map(part => part / 255).map(
      part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const opacity = element => {
    let product = 1;
    for (; element; element = element.parentElement) product *= +getComputedStyle(element).opacity;
    return product;
  };
  const paint = element => {                   // layers from the top, each with all colours that it may have
    const style = getComputedStyle(element), shape = element instanceof SVGGraphicsElement, layers = [];
    if (shape && !/^(path|rect|circle|ellipse|polygon)$/.test(element.localName)) return [];
    if (!shape && style.backgroundImage !== 'none') {
      if (style.backgroundImage.includes('url(')) return null;
      const stops = style.backgroundImage.match(/(?:rgba?|color)\([^)]*\)/g).map(rgba);
      layers.push([[0, 0, 0, 0], ...stops.map(stop => [...stop.slice(0, 3), stop[3] * opacity(element)])]);
    }
    const fill = shape ? style.fill : style.backgroundColor;
    const colour = fill === 'none' ? [0, 0, 0, 0] : rgba(fill);
    colour[3] *= opacity(element) * (shape ? +style.fillOpacity : 1);
    return [...layers, [colour]];
  };
  const probe = document.body.appendChild(document.createElement('div'));  // for the window's own colour
  probe.style.backgroundColor = 'Canvas';
  const canvasColour = rgba(getComputedStyle(probe).backgroundColor).slice(0, 3), found = [];
  probe.remove();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement, text = node.data.trim();
    if (!text || /^(script|style|title|desc|metadata)$/.test(element.localName)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    element.scrollIntoView({block: 'center', inline: 'center'});
    const box = [...range.getClientRects()].find(box => box.width > 1 && box.height > 1);
    const style = getComputedStyle(element);
    if (!box || style.visibility === 'hidden' || style.clipPath !== 'none') continue;
    let stack = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    const place = stack.indexOf(element);
    if (place >= 0) stack = stack.slice(place);
    else stack = [...(function*() { for (let e = element; e; e = e.parentElement) yield e; })()];
    const layers = [];
    let unknown = false;
    for (const each of stack) {
      if (each === element && each instanceof SVGElement) continue;
      const painted = paint(each);
      if (!painted) { unknown = true; break; }
      layers.push(...painted);
      if (painted.some(colours => colours.every(colour => colour[3] === 1))) break;
    }
    const grounds = layers.reverse().reduce(
      (below, colours) => below.flatMap(ground => colours.map(top => over(top, ground))), [canvasColour]);
    const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
    ink[3] *= opacity(element);
    const ratios = grounds.map(ground => {
      const [light, dark] = [luminance(over(ink, ground)), luminance(ground)].sort((a, b) => b - a);
      return (light + 0.05) / (dark + 0.05);
    });
    found.push([text, unknown ? null : Math.min(...ratios)]);
  }
  scrollTo(0, 0);
  return found;
}
"""

#: Script that returns elements with content wider than the element. Accessible scroll areas are not reported: they need
#: a permanent scrollbar, a shadow at the side with more content, keyboard focus, a role and a name.
CUT_OFF = """
() => [...document.body.querySelectorAll('*')].filter(element => {
  const style = getComputedStyle(element), bar = getComputedStyle(element, '::-webkit-scrollbar');
  if (element.scrollWidth <= element.clientWidth || style.overflowX === 'visible' || style.clipPath !== 'none'
      || element.matches('textarea, input, select')) return false;
  return !(style.overflowX === 'auto' && element.tabIndex === 0 && element.getAttribute('role') === 'region'
           && element.getAttribute('aria-label') && parseFloat(bar.height) > 5
           && style.backgroundAttachment.includes('local'));
}).map(element => element.outerHTML.slice(0, 80))
"""


def chromium():
    """The path of Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened(browser, path, width=1280, scheme='light', height=900):
    """Opens a local HTML file or a URL as a page of Playwright, for a `with` block.

    At the end of the block it asserts that the page printed nothing to the console, raised no error, opened no dialog,
    and loaded nothing from elsewhere.

    Args:
        browser: the fixture `browser`.
        path: path of the file, or URL of a server; the page may load more from this server.
        width: width of the window in pixels.
        scheme: preferred colour scheme, 'light' or 'dark'.
        height: height of the window in pixels.
    """
    served = '://' in str(path)
    address = str(path) if served else Path(path).resolve().as_uri()
    said, asked = [], []
    with browser.new_context(viewport={'width': width, 'height': height}, color_scheme=scheme) as context:
        page = context.new_page()
        page.on('console', lambda message: said.append(f'{message.type}: {message.text}'))
        page.on('pageerror', lambda error: said.append(f'error: {error}'))
        page.on('dialog', lambda dialog: (said.append(f'dialog: {dialog.message}'), dialog.dismiss()))
        page.on('request', lambda request: asked.append(request.url))
        page.goto(address)
        yield page
        others = [each for each in asked if each != address and not each.startswith('data:')
                  and not (served and each.startswith(address))]
        assert not others, f'{path} at {width} pixels, {scheme}, loads {others}'
        assert not said, f'{path} at {width} pixels, {scheme}, says {said}'


def check_page(browser, path):
    """Runs the general checks on a page: at two widths, light and dark, collapsed and expanded.

    The page must print nothing to the console and send no requests (see `opened`). No content may be wider than the
    window or scroll sideways without a hint. All visible text needs a contrast of 4.5 : 1 or more. axe-core must find
    no violation.
    """
    for width in WIDTHS:
        for scheme in SCHEMES:
            with opened(browser, path, width, scheme) as page:
                check_view(page)
                if unfold(page):
                    check_view(page)


def check_view(page):
    """Checks the width, the contrasts and axe-core's rules of a page in its current state."""
    from axe_playwright_python.sync_playwright import Axe
    wide, window = page.evaluate('[document.documentElement.scrollWidth, document.documentElement.clientWidth]')
    assert wide <= window, f'{wide} pixels of content in {window}'
    hidden = page.evaluate(CUT_OFF)
    assert not hidden, f'wider than their boxes, without focus, name, scrollbar or shadow: {hidden[:5]}'
    contrasts = page.evaluate(CONTRASTS)
    assert contrasts, 'no text is seen'
    weak = [(text, ratio) for text, ratio in contrasts if ratio is None or ratio < CONTRAST]
    assert not weak, f'contrasts below {CONTRAST} : 1: {weak[:5]}'
    violations = Axe().run(page).response['violations']
    assert not violations, [(rule['id'], [node['html'] for node in rule['nodes'][:3]]) for rule in violations]


def unfold(page):
    """Opens all <details> and checks all checkboxes of a page; returns whether anything changed."""
    return page.evaluate("""() => {
        const folded = document.querySelectorAll('details:not([open]), input[type=checkbox]:not(:checked)');
        folded.forEach(each => each.localName === 'details' ? each.open = true : each.click());
        return folded.length > 0;
    }""")


def screenshot(browser, path, picture, width=1280, scheme='light', height=900, unfolded=False):
    """Writes a PNG of the window of a page, collapsed or, with `unfolded`, expanded."""
    with opened(browser, path, width, scheme, height) as page:
        if unfolded:
            unfold(page)
        page.screenshot(path=picture)
