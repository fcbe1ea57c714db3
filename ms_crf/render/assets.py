"""The files that pages are made of, and the colours of palette.css, which all pages share."""

import functools
import re
from pathlib import Path


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
