"""The command `ms-crf infer`: text in, tags out; on a terminal it asks for sentences."""

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

from ms_crf.api import tag
from ms_crf.base import processes
from ms_crf.base.errors import OptionError
from ms_crf.cli import console
from ms_crf.cli.parser import Named, Namespace, command
from ms_crf.cli.terminal import InteractiveTerminal
from ms_crf.tagging.arguments import LINES, TagArguments
from ms_crf.tagging.files import TITLE, Tagging
from ms_crf.text.splitting import BLANKS


def _main(parsed: Namespace, named: Named) -> None:
    """Tags text with a trained model. Without arguments it takes the newest run in runs/, and asks for sentences on
    a terminal or reads standard input.
    """
    console.use_utf8()
    if 'text' in named:
        named['text'] = _utf8(named['text'])
    asks = not {'text', 'input', 'output'} & set(named) and sys.stdin.isatty()
    if 'text' not in named:
        named.setdefault('input', LINES)
    shown = 'output' not in named and 'score' not in named
    if shown:
        named['output'] = sys.stdout
    watcher = InteractiveTerminal('infer', bars='text' not in named and not (shown and sys.stdout.isatty()))
    if asks:
        _talk(named, watcher)
        return
    result = tag(**named, watcher=watcher)
    if result.done_before:
        watcher.warn(f'{result.files:,} of {result.files + result.done_before:,} files tagged; the others were in '
                     f'{named["output"]} already')
    for remark in result.remarks:
        watcher.warn(remark)
    for line in result.scores.lines() if result.scores else ():
        console.show(line)


def _talk(named: Mapping[str, Any], watcher: InteractiveTerminal) -> None:
    """Asks for sentences, and shows each with its tags."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  that lines can be edited
    tagging = Tagging(TagArguments.from_call(named), watcher, colour='NO_COLOR' not in os.environ)
    writer = tagging.writer()
    _print(writer.begin(TITLE))
    console.say('a sentence a line; an empty line or Ctrl-D ends')
    while True:
        try:
            with processes.handling_signals(processes.interrupt):       # which leaves the terminal as it was
                text = input('> ')
        except EOFError:
            console.show()
            break
        except UnicodeDecodeError:
            console.say('expected UTF-8')
            continue
        if not text.strip(BLANKS):
            break
        tagging.answer(text, writer, _print)
    _print(writer.end())


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _utf8(text: str) -> str:
    """An argument of the command line as UTF-8; where the locale is another, Python has made lone surrogates of it."""
    if text.isascii() or not any('\udc80' <= character <= '\udcff' for character in text):
        return text
    try:
        return os.fsencode(text).decode('utf-8')
    except UnicodeEncodeError:                                   # surrogates that do not stand for bytes
        return text
    except UnicodeDecodeError as error:
        raise OptionError(f'--text must be UTF-8, got byte {error.object[error.start]:#04x} at column '
                          f'{error.start + 1}') from None


parser, main = command('infer', TagArguments, _main)
