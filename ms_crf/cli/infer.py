"""The command `ms-crf infer`: tags text from arguments, files or standard input; on a terminal it is interactive."""

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
    """Tags text with a trained model. Without arguments the model is the newest run in runs/, and sentences are read
    from standard input; on a terminal there is a prompt.
    """
    console.use_utf8()
    if 'text' in named:
        named['text'] = _utf8(named['text'])
    interactive = not {'text', 'input', 'output'} & set(named) and sys.stdin.isatty()
    if 'text' not in named:
        named.setdefault('input', LINES)
    shown = 'output' not in named and 'score' not in named
    if shown:
        named['output'] = sys.stdout
    watcher = InteractiveTerminal('infer', bars='text' not in named and not (shown and sys.stdout.isatty()))
    if interactive:
        _prompt(named, watcher)
        return
    result = tag(**named, watcher=watcher)
    if result.done_before:
        watcher.warn(f'{result.files:,} of {result.files + result.done_before:,} files tagged; {named["output"]} '
                     f'already contained the output of the rest')
    for remark in result.remarks:
        watcher.warn(remark)
    for line in result.scores.lines() if result.scores else ():
        console.show(line)


def _prompt(named: Mapping[str, Any], watcher: InteractiveTerminal) -> None:
    """Reads sentences at a prompt, and prints each sentence with its tags."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  enables editing of input lines
    tagging = Tagging(TagArguments.from_call(named), watcher, colour='NO_COLOR' not in os.environ)
    writer = tagging.writer()
    _print(writer.begin(TITLE))
    console.say('type one sentence per line; an empty line or Ctrl-D ends')
    while True:
        try:
            with processes.handling_signals(processes.interrupt):       # it restores the terminal
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
    """Decodes an argument as UTF-8; in another locale Python has replaced its bytes by lone surrogates."""
    if text.isascii() or not any('\udc80' <= character <= '\udcff' for character in text):
        return text
    try:
        return os.fsencode(text).decode('utf-8')
    except UnicodeEncodeError:                                   # surrogates that do not represent bytes
        return text
    except UnicodeDecodeError as error:
        raise OptionError(f'--text must be UTF-8, got byte {error.object[error.start]:#04x} at column '
                          f'{error.start + 1}') from None


parser, main = command('infer', TagArguments, _main)
