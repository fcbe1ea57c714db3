"""The queue of what waits to be tagged: what arrives together is tagged together, and short requests pass long ones.

The tagger is given batches. Two of them are with it at most, the second only if it is a full one, so that it never
waits for the next batch and what arrives meanwhile is gathered. A request of many sentences goes in parts.

A larger batch would take less time a sentence, but a short request that comes while it is tagged waits for its end.
From 2,048 distinct words on a network over words computes in another way, which is faster and rounds otherwise: the
confidences of the best tags differ by less than 1e-6, those of alternatives by more than 1e-5, so they get smaller
batches.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ms_crf.server.child import settle
from ms_crf.server.limits import Refused

WORDS, TOKENS, ROWS = 4000, 8000, 512  # distinct words, tokens and sentences of a batch: some 30 ms of an LSTM
NBEST_WORDS = 2000                     # distinct words of a batch with alternatives
ENOUGH = 4000                          # tokens that are worth a batch while another one is tagged
SHORT = 200                            # tokens of a request that does not wait behind longer ones

#: what a batch is asked for: confidences, and how many of the likeliest taggings
Task = tuple[bool | None, int]


class Part(NamedTuple):
    """The sentences of a request that are in one batch."""

    job: 'Job'
    first: int
    size: int


class Job:
    """The sentences of a request, on their way.

    Args:
        sentences: lists of tokens.
        task: what is asked for.
        write: is called with the index of a sentence and what the tagger said of it; what it returns is the result.
    """

    def __init__(self, sentences: list[list[str]], task: Task, write: Callable[[int, Any], str]) -> None:
        self.sentences, self.task, self.write = sentences, task, write
        self.tokens = sum(map(len, sentences))                   # that are not in a batch yet
        self.place, self.left = 0, len(sentences)                # the next sentence, and how many are not tagged
        self.results: list[str] = [''] * len(sentences)
        self.done: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()


class Queue:
    """What waits for one tagger.

    Args:
        send: is called with a task and sentences; gives a future of what the tagger says of each.
        most: tokens that may wait.
        counted: is called with sentences and tokens of each batch.
    """

    def __init__(self, send: Callable[[Task, list[list[str]]], 'asyncio.Future[list[Any]]'], most: int,
                 counted: Callable[[int, int], None]) -> None:
        self._send, self._most, self._counted = send, most, counted
        self._short: deque[Job] = deque()
        self._long: deque[Job] = deque()
        self._flying: list[list[Part]] = []
        self.tokens, self._turn = 0, False

    async def tag(self, job: Job) -> list[str]:
        """The results of a job; raises Refused if there is no room for it, or what has befallen the tagger."""
        if not job.sentences:
            return []
        if self.tokens and self.tokens + job.tokens > self._most:
            raise Refused(503, 'expected room in the queue, got none: too many requests wait; try again', 1)
        (self._short if job.tokens <= SHORT else self._long).append(job)
        self.tokens += job.tokens
        self._dispatch()
        try:
            return await job.done
        finally:
            self._drop(job)                      # of a request that was given up, what is left is not tagged

    def fail(self, error: Exception) -> None:
        """Ends all jobs, for the tagger is gone."""
        for job in [*self._short, *self._long, *(part.job for parts in self._flying for part in parts)]:
            settle(job.done, error)

    def _drop(self, job: Job) -> None:
        if job.place < len(job.sentences):
            (self._short if job in self._short else self._long).remove(job)
            self.tokens -= job.tokens
            job.place = len(job.sentences)

    def _dispatch(self) -> None:
        # A second batch, while another one is tagged, only if it is worth its time by itself.
        while (self._short or self._long) and (not self._flying or
                                               len(self._flying) < 2 and self.tokens >= ENOUGH):
            parts = self._take()
            sentences = [tokens for job, first, size in parts for tokens in job.sentences[first:first + size]]
            self._counted(len(sentences), sum(map(len, sentences)))
            self._flying.append(parts)
            self._send(parts[0].job.task, sentences).add_done_callback(
                lambda future, parts=parts: self._arrived(parts, future))     # type: ignore[misc]

    def _take(self) -> list[Part]:
        """The next batch: half of it for short requests, in their order, then for long ones in turn, then for both."""
        both = bool(self._short and self._long)
        self._turn = both and not self._turn     # who says what this batch is asked for
        batch = _Batch((self._long if self._turn else self._short or self._long)[0].task)
        for share, waiting in ((.5 if both else 1, self._short), (1, self._long), (1, self._short)):
            for job in [job for job in waiting if job.task == batch.task]:
                if batch.is_full(share):
                    break
                # Of long requests each has a part of the batch, as long as others wait.
                room = max(SHORT, TOKENS // len(self._long)) if waiting is self._long else TOKENS
                before = job.tokens
                batch.add(job, share, room)
                self.tokens -= before - job.tokens
                if waiting is self._long or job.place == len(job.sentences):
                    waiting.remove(job)
                    if job.place < len(job.sentences):
                        waiting.append(job)
        return batch.parts

    def _arrived(self, parts: list[Part], future: 'asyncio.Future[list[Any]]') -> None:
        self._flying.remove(parts)
        self._dispatch()                         # first of all, so that the tagger has work while results are written
        error = Refused(503, 'stopped; try again', 1) if future.cancelled() else future.exception()
        if error is None:
            self._write(parts, iter(future.result()))
        else:
            for part in parts:
                settle(part.job.done, error)

    @staticmethod
    def _write(parts: list[Part], said: Iterator[Any]) -> None:
        for job, first, size in parts:
            values = [next(said) for _ in range(size)]
            if job.done.done():
                continue
            try:
                job.results[first:first + size] = [job.write(*numbered) for numbered in enumerate(values, first)]
                job.left -= size
                if not job.left:
                    settle(job.done, job.results)
            except Exception as error:           # of this request only, for whatever reason
                settle(job.done, error)


class _Batch:
    """A batch while it is filled."""

    def __init__(self, task: Task) -> None:
        self.task, self.parts = task, list[Part]()
        self._words: set[str] = set()
        self._most = NBEST_WORDS if task[1] else WORDS
        self._tokens = self._rows = 0

    def is_full(self, share: float) -> bool:
        return (len(self._words) >= share * self._most or self._tokens >= share * TOKENS or self._rows >= share * ROWS)

    def add(self, job: Job, share: float, room: int) -> None:
        """Takes sentences of a job, as long as there is room; at least one if there is nothing yet."""
        first, end = job.place, job.place
        while end < len(job.sentences):
            tokens = job.sentences[end]
            new = {token for token in tokens if token not in self._words}
            fits = (len(self._words) + len(new) <= self._most * share and self._tokens + len(tokens) <= TOKENS * share
                    and self._rows < ROWS * share and room > 0)
            if not fits and self._rows:
                break
            self._words |= new
            self._tokens, self._rows = self._tokens + len(tokens), self._rows + 1
            room -= len(tokens)
            end += 1
        if end > first:
            job.place = end
            job.tokens -= sum(map(len, job.sentences[first:end]))
            self.parts.append(Part(job, first, end - first))
