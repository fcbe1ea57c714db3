"""Dynamic batching: the queue collects sentences of several requests and sends them to the tagger in batches.

The tagger has at most two batches. The second batch is sent only if it is large, so that the tagger always has work
while new requests are collected. Requests with many sentences are split over several batches, and short requests
overtake long requests.

Larger batches need less time per sentence. But a short request that arrives during a batch waits until the batch is
finished. From 2,048 distinct words on, networks over words use a faster computation with other rounding. Confidences of
the best tags then differ by less than 1e-6, and confidences of alternatives by more than 1e-5. So batches with
alternatives are smaller.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ms_crf.server.child import settle
from ms_crf.server.limits import RequestError

WORDS, TOKENS, ROWS = 4000, 8000, 512  # limits of a batch: distinct words, tokens, sentences; about 30 ms of an LSTM
NBEST_WORDS = 2000                     # limit of distinct words in a batch with alternatives
ENOUGH = 4000                          # least tokens of a second batch, sent while the first is being tagged
SHORT = 200                            # most tokens of a request that overtakes longer requests

#: the options that all requests of a batch share: whether to compute confidences, and the size of the n-best list
Task = tuple[bool | None, int]


class BatchPart(NamedTuple):
    """The part of a batch that belongs to one job: `size` sentences from index `first`."""

    job: 'TagJob'
    first: int
    size: int


class TagJob:
    """The sentences of a request, from the queue to the results.

    Args:
        sentences: lists of tokens.
        task: options of the tagger.
        write: takes the index of a sentence and its prediction, and returns the result of the sentence.

    Attributes:
        tokens: number of tokens that no batch contains yet.
        next_index: index of the next sentence for a batch.
        untagged: number of sentences without a result.
        results: results of `write`, in the order of the sentences.
        done: future of the results.
    """

    def __init__(self, sentences: list[list[str]], task: Task, write: Callable[[int, Any], str]) -> None:
        self.sentences, self.task, self.write = sentences, task, write
        self.tokens = sum(map(len, sentences))
        self.next_index, self.untagged = 0, len(sentences)
        self.results: list[str] = [''] * len(sentences)
        self.done: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()


class Queue:
    """The jobs that wait for one tagger.

    Args:
        send: takes a task and sentences, and returns a future with one prediction for each sentence.
        max_tokens: most tokens that may wait.
        on_batch: is called with the numbers of sentences and tokens of each batch.

    Attributes:
        tokens: number of tokens that wait.
    """

    def __init__(self, send: Callable[[Task, list[list[str]]], 'asyncio.Future[list[Any]]'], max_tokens: int,
                 on_batch: Callable[[int, int], None]) -> None:
        self._send, self._max_tokens, self._on_batch = send, max_tokens, on_batch
        self._short: deque[TagJob] = deque()
        self._long: deque[TagJob] = deque()
        self._in_progress: list[list[BatchPart]] = []
        self.tokens, self._turn = 0, False

    async def tag(self, job: TagJob) -> list[str]:
        """Returns the results of a job; raises RequestError if the queue is full, or the error of the tagger."""
        if not job.sentences:
            return []
        if self.tokens and self.tokens + job.tokens > self._max_tokens:
            raise RequestError(503, 'the queue is full; try again', 1)
        (self._short if job.tokens <= SHORT else self._long).append(job)
        self.tokens += job.tokens
        self._dispatch()
        try:
            return await job.done
        finally:
            self._drop(job)                      # a cancelled request is not tagged any further

    def fail(self, error: Exception) -> None:
        """Ends all jobs with an error, because the tagger has ended."""
        for job in [*self._short, *self._long, *(part.job for parts in self._in_progress for part in parts)]:
            settle(job.done, error)

    def _drop(self, job: TagJob) -> None:
        if job.next_index < len(job.sentences):
            (self._short if job in self._short else self._long).remove(job)
            self.tokens -= job.tokens
            job.next_index = len(job.sentences)

    def _dispatch(self) -> None:
        # A second batch is sent only if it is large. Otherwise it waits for more requests.
        while (self._short or self._long) and (not self._in_progress or
                                               len(self._in_progress) < 2 and self.tokens >= ENOUGH):
            parts = self._take()
            sentences = [tokens for job, first, size in parts for tokens in job.sentences[first:first + size]]
            self._on_batch(len(sentences), sum(map(len, sentences)))
            self._in_progress.append(parts)
            self._send(parts[0].job.task, sentences).add_done_callback(
                lambda future, parts=parts: self._on_result(parts, future))     # type: ignore[misc]

    def _take(self) -> list[BatchPart]:
        """Removes the next batch from the queue and returns its parts.

        Up to half of the batch is for short requests, in the order of arrival. Long requests share the next part, and
        short requests fill the rest.
        """
        both = bool(self._short and self._long)
        self._turn = both and not self._turn     # short and long requests alternate in choosing the task
        batch = _Batch((self._long if self._turn else self._short or self._long)[0].task)
        for share, waiting in ((.5 if both else 1, self._short), (1, self._long), (1, self._short)):
            for job in [job for job in waiting if job.task == batch.task]:
                if batch.is_full(share):
                    break
                # Long requests share the batch, so that none of them blocks the rest.
                room = max(SHORT, TOKENS // len(self._long)) if waiting is self._long else TOKENS
                before = job.tokens
                batch.add(job, share, room)
                self.tokens -= before - job.tokens
                if waiting is self._long or job.next_index == len(job.sentences):
                    waiting.remove(job)
                    if job.next_index < len(job.sentences):
                        waiting.append(job)
        return batch.parts

    def _on_result(self, parts: list[BatchPart], future: 'asyncio.Future[list[Any]]') -> None:
        self._in_progress.remove(parts)
        self._dispatch()                         # comes first, so that the tagger has work while results are written
        error = RequestError(503, 'stopped; try again', 1) if future.cancelled() else future.exception()
        if error is None:
            self._write(parts, iter(future.result()))
        else:
            for part in parts:
                settle(part.job.done, error)

    @staticmethod
    def _write(parts: list[BatchPart], predictions: Iterator[Any]) -> None:
        for job, first, size in parts:
            values = [next(predictions) for _ in range(size)]
            if job.done.done():
                continue
            try:
                job.results[first:first + size] = [job.write(*numbered) for numbered in enumerate(values, first)]
                job.untagged -= size
                if not job.untagged:
                    settle(job.done, job.results)
            except Exception as error:           # fails only the request of this job
                settle(job.done, error)


class _Batch:
    """A batch that is being filled."""

    def __init__(self, task: Task) -> None:
        self.task, self.parts = task, list[BatchPart]()
        self._words: set[str] = set()
        self._max_words = NBEST_WORDS if task[1] else WORDS
        self._tokens = self._rows = 0

    def is_full(self, share: float) -> bool:
        """Whether the batch has reached one of its limits, multiplied by `share`."""
        return (len(self._words) >= share * self._max_words or self._tokens >= share * TOKENS
                or self._rows >= share * ROWS)

    def add(self, job: TagJob, share: float, room: int) -> None:
        """Moves sentences of a job into the batch until a limit is reached; an empty batch takes at least one sentence.

        Args:
            job: the job.
            share: factor of the limits of the batch.
            room: most tokens of this job.
        """
        first, end = job.next_index, job.next_index
        while end < len(job.sentences):
            tokens = job.sentences[end]
            new = {token for token in tokens if token not in self._words}
            fits = (len(self._words) + len(new) <= self._max_words * share
                    and self._tokens + len(tokens) <= TOKENS * share and self._rows < ROWS * share and room > 0)
            if not fits and self._rows:
                break
            self._words |= new
            self._tokens, self._rows = self._tokens + len(tokens), self._rows + 1
            room -= len(tokens)
            end += 1
        if end > first:
            job.next_index = end
            job.tokens -= sum(map(len, job.sentences[first:end]))
            self.parts.append(BatchPart(job, first, end - first))
