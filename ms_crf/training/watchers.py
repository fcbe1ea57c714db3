"""Events and lines that a training reports while it runs, and the errors that end it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from ms_crf.base import processes
from ms_crf.base.errors import OptionError
from ms_crf.base.watchers import Silent, Watcher
from ms_crf.formats.dataset import Corpora

NAMED = 5                      # number of types of unknown tags that a line names


class TrainingWatcher(Silent):
    """A `Watcher` that also receives the events of a training. Subclasses override some of the empty methods."""

    stop_requested = False

    def corpora(self, corpora: Corpora) -> None:
        """Called after the files have been read."""

    def compiled(self, task: str, length: int, rows: int, seconds: float) -> None:
        """Called after a graph was compiled for batches of this shape; `task` is 'training' or 'tagging'."""

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Called when an epoch begins; `done` is the number of sentences that were trained before a resume."""

    def step(self, sentences: int, loss: float) -> None:
        """Called after each step, with the number of sentences in its batch."""

    def epoch_ends(self, record: Mapping[str, Any]) -> None:
        """Called after an epoch was scored and saved, with its record in metrics.jsonl."""

    def close(self) -> None:
        """Called when the training has ended, also after an error."""

    def stopping(self) -> bool:
        """Returns whether the training must stop after this step."""
        return self.stop_requested

    def ask_to_stop(self, *_: object) -> None:
        """Stops the training after the current step. Can be called from other threads and as a signal handler.

        Raises:
            KeyboardInterrupt: this is the second request, which stops at once.
        """
        if self.stop_requested:
            processes.interrupt()
        self.stop_requested = True


class TrainingLines(TrainingWatcher):
    """Converts the events of a training to lines and progress of a plain `Watcher`.

    Args:
        watcher: receives the lines and the progress.

    Attributes:
        compiling: number of seconds that compiling has taken so far.
    """

    def __init__(self, watcher: Watcher) -> None:
        self.watcher, self.compiling, self.sentences = watcher, 0.0, 0
        self._epoch = ExitStack()

    def say(self, text: str) -> None:
        """Forwards the line."""
        self.watcher.say(text)

    def warn(self, text: str) -> None:
        """Forwards the line."""
        self.watcher.warn(text)

    def progress(self, task: str, total: int | None, unit: str) -> AbstractContextManager[Callable[[int], object]]:
        """Forwards the task."""
        return self.watcher.progress(task, total, unit)

    def corpora(self, corpora: Corpora) -> None:
        """Reports the sizes of the files, and remarks on their tags."""
        for line in lines_of(corpora):
            self.say(line)

    def compiled(self, task: str, length: int, rows: int, seconds: float) -> None:
        """Reports the duration."""
        self.compiling += seconds
        self.say(f'compiled the {task} graph for {rows} sentences of up to {length} tokens: {seconds:.1f} s')

    def epoch_begins(self, epoch: int, epochs: int, sentences: int, done: int) -> None:
        """Starts the progress of the epoch."""
        self.sentences = sentences
        self._advance = self._epoch.enter_context(
            self.watcher.progress(f'epoch {epoch}/{epochs}', sentences, 'sentences'))
        self._advance(done)

    def step(self, sentences: int, loss: float) -> None:
        """Advances the progress of the epoch."""
        self._advance(sentences)

    def epoch_ends(self, record: Mapping[str, Any]) -> None:
        """Reports the scores of the epoch."""
        self.close()
        rate = self.sentences / max(record['seconds'], 1e-9)
        self.say(f'epoch {record["epoch"]:>3}  loss {record["loss"]:8.4f}  dev P {record["precision"]:7.2%}  '
                 f'R {record["recall"]:7.2%}  F1 {100 * record["f1"]:6.2f}  acc {record["accuracy"]:7.2%}  '
                 f'{record["seconds"]:6.2f} s  {rate:5.0f} sentences/s{"  best" if record["best"] else ""}')

    def close(self) -> None:
        """Ends the progress of the epoch."""
        self._epoch.close()


def lines_of(corpora: Corpora) -> Iterator[str]:
    """Yields lines about the files of a training: sizes, tags, invalid spans, and tags that train does not contain."""
    for part, sentences in corpora.parts.items():
        tokens = sum(len(sentence.tokens) for sentence in sentences)
        yield f'{part:<6}{len(sentences):>8,} sentences {tokens:>10,} tokens'
    trained = '' if corpora.scheme == corpora.file_scheme else f', trained as {corpora.scheme}'
    yield f'scheme: {corpora.file_scheme}{trained}; {len(corpora.tags)} tags'
    for path, count, line in corpora.repaired:
        yield (f'{path}: {count} sentences are invalid in {corpora.file_scheme}, the first begins at line {line}; '
               'their tags are read by the rules of conlleval')
    yield from corpora.remarks
    for path, line, tag, counts in corpora.unknown:
        yield (f'{path}: {sum(counts.values())} tags do not occur in train and cannot be predicted ({_named(counts)}); '
               f'the first is {tag!r} at line {line}')


def _named(counts: Counter[str]) -> str:
    others = f' and {len(counts) - NAMED} others' if len(counts) > NAMED else ''
    return ', '.join(f'{kind} {count}' for kind, count in counts.most_common(NAMED)) + others


class Stopped(KeyboardInterrupt):
    """The training was stopped after a step, and its state is saved.

    Attributes:
        folder: the run directory to resume; None in workers other than the first.
        earlier: with `overwrite`, the earlier run if it is not replaced yet; otherwise None.
    """

    def __init__(self, folder: Path | None = None, earlier: Path | None = None) -> None:
        self.folder, self.earlier = folder, earlier

    def __str__(self) -> str:
        return f'stopped and saved in {self.folder}'


class NotFinite(OptionError):
    """The loss or its gradients are not finite. The saved state of the run is not changed."""

    longest = 100_000          # in characters: the message contains a line number for each sentence of the batch


class WorkersDied(Exception):
    """The training ended because one of its workers died.

    Attributes:
        fault: the worker that died, or a message that no worker started.
        folder: the run directory; if it exists, the training can be resumed.
    """

    def __init__(self, fault: str, folder: str) -> None:
        super().__init__(f'{fault}; all workers were ended; resume {folder} from its last saved state')
        self.fault, self.folder = fault, folder
