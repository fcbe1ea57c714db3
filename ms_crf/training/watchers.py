"""What a training reports while it runs: events for programs, lines for people, errors that end it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from ms_crf.base import processes
from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import Silent, Watcher
from ms_crf.formats.dataset import Corpora

NAMED = 5                      # so many types of unknown tags are named in a line


class TrainingWatcher(Silent):
    """A `Watcher` that also receives the events of a training. All methods do nothing; subclasses override some."""

    asked_to_stop = False

    def corpora(self, corpora: Corpora) -> None:
        """Called when the files have been read."""

    def compiled(self, task: str, length: int, rows: int, seconds: float) -> None:
        """Called when a graph was compiled, for the task 'training' or 'tagging', and a batch of this shape."""

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Called when an epoch begins; `done` of its sentences were done already before the training was resumed."""

    def step(self, sentences: int, loss: float) -> None:
        """Called after each step, with the number of sentences in its batch."""

    def epoch_ends(self, record: Mapping[str, Any]) -> None:
        """Called when an epoch is scored and saved, with its line of metrics.jsonl."""

    def close(self) -> None:
        """Called when the training has ended, in whatever way."""

    def stopping(self) -> bool:
        """Whether the training is to stop after this step."""
        return self.asked_to_stop

    def ask_to_stop(self, *_: object) -> None:
        """Stops the training after the step that it is in. A handler of signals; other threads may call it too.

        Raises:
            KeyboardInterrupt: it was asked before, so that nobody wants to wait.
        """
        if self.asked_to_stop:
            processes.interrupt()
        self.asked_to_stop = True


class TrainingLines(TrainingWatcher):
    """Turns the events of a training into lines and progress, for a `Watcher` that knows no other events.

    Args:
        watcher: takes the lines.

    Attributes:
        compiling: how many seconds compiling has taken so far.
    """

    def __init__(self, watcher: Watcher) -> None:
        self.watcher, self.compiling, self.sentences = watcher, 0.0, 0
        self._epoch = ExitStack()

    def say(self, text: str) -> None:
        """Passes the line on."""
        self.watcher.say(text)

    def warn(self, text: str) -> None:
        """Passes the line on."""
        self.watcher.warn(text)

    def progress(self, task: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], object]]:
        """Passes the task on."""
        return self.watcher.progress(task, total, unit)

    def corpora(self, corpora: Corpora) -> None:
        """Says how large the files are and what is strange in them."""
        for line in lines_of(corpora):
            self.say(line)

    def compiled(self, task: str, length: int, rows: int, seconds: float) -> None:
        """Says how long it took."""
        self.compiling += seconds
        self.say(f'compiled the graph of {task} for {rows} sentences of up to {length} tokens: {seconds:.1f} s')

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Begins the progress of the epoch."""
        self.sentences = sentences
        self._advance = self._epoch.enter_context(
            self.watcher.progress(f'epoch {epoch}/{epochs}', sentences, 'sentences'))
        self._advance(done)

    def step(self, sentences: int, loss: float) -> None:
        """Advances the progress of the epoch."""
        self._advance(sentences)

    def epoch_ends(self, record: Mapping[str, Any]) -> None:
        """Says the scores of the epoch."""
        self.close()
        rate = self.sentences / max(record['seconds'], 1e-9)
        self.say(f'epoch {record["epoch"]:>3}  loss {record["loss"]:8.4f}  dev P {record["precision"]:7.2%}  '
                 f'R {record["recall"]:7.2%}  F1 {100 * record["f1"]:6.2f}  acc {record["accuracy"]:7.2%}  '
                 f'{record["seconds"]:6.2f} s  {rate:5.0f} sentences/s{"  best" if record["best"] else ""}')

    def close(self) -> None:
        """Ends the progress of the epoch."""
        self._epoch.close()


def lines_of(corpora: Corpora) -> Iterator[str]:
    """Lines about the files of a training: sizes, tags, and what is strange in them."""
    for part, sentences in corpora.parts.items():
        tokens = sum(len(sentence.tokens) for sentence in sentences)
        yield f'{part:<6}{len(sentences):>8,} sentences {tokens:>10,} tokens'
    trained = '' if corpora.scheme == corpora.file_scheme else f', trained as {corpora.scheme}'
    yield f'tags: {corpora.file_scheme}{trained}, {len(corpora.tags)} of them'
    for path, count, line in corpora.repaired:
        yield (f'{path}: {count} sentences break {corpora.file_scheme}, the first begins at line {line}; '
               'their tags are read by the rules of conlleval')
    yield from corpora.remarks
    for path, line, tag, counts in corpora.unknown:
        yield (f'{path}: {sum(counts.values())} tags that train lacks can only be missed ({_named(counts)}), the '
               f'first, {tag!r}, at line {line}')


def _named(counts: Counter[str]) -> str:
    others = f' and {len(counts) - NAMED} others' if len(counts) > NAMED else ''
    return ', '.join(f'{kind} {count}' for kind, count in counts.most_common(NAMED)) + others


class Stopped(KeyboardInterrupt):
    """The training was stopped after a step, and its state is saved.

    Attributes:
        folder: the run directory to resume; None if another worker wrote it.
        earlier: the run that the training was going to replace and has not replaced yet, or None.
    """

    def __init__(self, folder: Path | None = None, earlier: Path | None = None) -> None:
        self.folder, self.earlier = folder, earlier

    def __str__(self) -> str:
        return f'stopped and saved in {self.folder}'


class NotFinite(OptionError):
    """The loss or its gradients are not finite. The files of the last epoch stay as they are."""

    longest = 100_000          # characters: the message names a line of the file for each sentence of the batch


class WorkersDied(Exception):
    """The training ended because one of its workers did.

    Attributes:
        fault: which worker died, or that none began.
        folder: the run directory; the training can be resumed if there is one.
    """

    def __init__(self, fault: str, folder: str) -> None:
        super().__init__(f'{fault}; all are ended, what was saved in {folder} stays; resume it to go on')
        self.fault, self.folder = fault, folder
