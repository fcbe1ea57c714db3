"""Parts of Markdown pages: code blocks, prose, and the commands of console blocks with their output."""

import re


def blocks(page, language=r'\w*'):
    """(language, text) of each code block of a page, in order."""
    return re.findall(rf'^```({language})\n(.*?)^```$', page.read_text(encoding='utf-8'), re.M | re.S)


def prose(page):
    """The text of a page without its code blocks."""
    return re.sub(r'^```.*?^```$', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)


def console(page):
    """(command, output lines) of each command in the console blocks of a page."""
    found = []
    for _, text in blocks(page, 'console'):
        for line in text.splitlines():
            if line.startswith('$ '):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found
