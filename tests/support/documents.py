"""Markdown pages: their code blocks, their prose, and the commands of their console blocks with the shown output."""

import re


def blocks(page, language=r'\w*'):
    """(language, text) of the code blocks of a page, in their order."""
    return re.findall(rf'^```({language})\n(.*?)^```$', page.read_text(encoding='utf-8'), re.M | re.S)


def prose(page):
    """The text of a page without its code blocks."""
    return re.sub(r'^```.*?^```$', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)


def console(page):
    """(command, lines of the output that is shown below it) of the console blocks of a page."""
    found = []
    for _, text in blocks(page, 'console'):
        for line in text.splitlines():
            if line.startswith('$ '):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found
