"""The queue in front of a model: which sentences form a batch, and in which order requests are answered.

A fake tagger stands in for the model process, so each test decides when a batch is answered.
"""

import asyncio

from ms_crf.server.batching import ENOUGH, NBEST_WORDS, ROWS, SHORT, TOKENS, WORDS, Queue, TagJob
from ms_crf.server.limits import RequestError

import pytest


class Tagging:
    """A fake tagger that holds its batches until `answer` is called; it answers each sentence in upper case."""

    def __init__(self, most=10 ** 9):
        self.batches, self.futures, self.counted = [], [], []
        self.queue = Queue(self.send, most, lambda *numbers: self.counted.append(numbers))

    def send(self, task, sentences):
        self.batches.append((task, sentences))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def ask(self, sentences, task=(None, 0)):
        job = TagJob(sentences, task, lambda _, said: said)
        return asyncio.ensure_future(self.queue.tag(job))

    async def answer(self, number):
        await asyncio.sleep(0)
        self.futures[number].set_result([' '.join(tokens).upper() for tokens in self.batches[number][1]])
        await asyncio.sleep(0)

    async def all_of_them(self):
        await asyncio.sleep(0)
        number = 0
        while number < len(self.batches):
            if not self.futures[number].done():
                await self.answer(number)
            number += 1
        assert self.queue.tokens == 0


def run(test):
    asyncio.run(asyncio.wait_for(test(), 30))


def test_batching_what_arrives_while_a_batch_is_tagged_is_tagged_together():
    async def test():
        tagging = Tagging()
        asked = [tagging.ask([[f'a{number}'], ['b']]) for number in range(20)]
        await tagging.all_of_them()
        assert [len(sentences) for _, sentences in tagging.batches] == [2, 38]
        assert [await each for each in asked] == [[f'A{number}', 'B'] for number in range(20)]
        assert tagging.counted == [(2, 2), (38, 38)] and tagging.queue.tokens == 0
    run(test)


def test_batching_a_second_batch_is_given_ahead_only_if_it_is_worth_it():
    async def test():
        tagging = Tagging()
        tagging.ask([['a']])
        small = tagging.ask([['a'] * (ENOUGH - 1)])
        await asyncio.sleep(0)
        assert len(tagging.batches) == 1
        tagging.ask([['a']])
        await asyncio.sleep(0)
        assert len(tagging.batches) == 2
        await tagging.all_of_them()
        assert (await small)[0].count('A') == ENOUGH - 1
    run(test)


def test_batching_batches_are_bounded_and_a_long_sentence_goes_alone():
    async def test():
        tagging = Tagging()
        distinct = [[f'{number} {index}' for index in range(7)] for number in range(5000)]
        asked = [tagging.ask(distinct), tagging.ask([['a'] * (TOKENS + 1)]), tagging.ask([['a']] * (ROWS + 1)),
                 tagging.ask(distinct, (None, 3))]
        await tagging.all_of_them()
        for (_, nbest), sentences in tagging.batches:
            words = {token for tokens in sentences for token in tokens}
            assert len(words) <= (NBEST_WORDS if nbest else WORDS) and len(sentences) <= ROWS
            assert len(sentences) == 1 or sum(map(len, sentences)) <= TOKENS
        assert [len(await each) for each in asked] == [5000, 1, ROWS + 1, 5000]
    run(test)


def test_batching_a_short_request_does_not_wait_behind_long_ones():
    async def test():
        tagging = Tagging()
        long = [tagging.ask([['word'] * 20] * 4000) for _ in range(30)]
        await asyncio.sleep(0)
        short = tagging.ask([['short']])
        await asyncio.sleep(0)
        flying = len(tagging.batches)
        assert flying == 2
        await tagging.answer(0)
        assert ['short'] in tagging.batches[flying][1] and ['word'] * 20 in tagging.batches[flying][1]
        await tagging.answer(1)
        await tagging.answer(flying)
        assert await short == ['SHORT'] and not any(each.done() for each in long)
        await tagging.all_of_them()
        assert [len(await each) for each in long] == [4000] * 30
    run(test)


def test_batching_long_requests_take_turns_and_short_ones_do_not_keep_them_waiting():
    async def test():
        tagging = Tagging()
        long = [tagging.ask([[name]] * 5000) for name in 'ab']
        tagging.ask([['c']] * SHORT, (None, 3))
        await asyncio.sleep(0)
        for number in range(12):
            # A short request with another task (n-best) is always waiting.
            tagging.ask([['c']] * SHORT, (None, 3))
            await tagging.answer(number)
        seen = [{token for tokens in sentences for token in tokens} for _, sentences in tagging.batches]
        assert sum('a' in words for words in seen) >= 3 and sum('b' in words for words in seen) >= 3
        assert sum('c' in words for words in seen) >= 3
        await tagging.all_of_them()
        assert [set(await each) for each in long] == [{'A'}, {'B'}]
    run(test)


def test_batching_requests_for_other_things_are_not_mixed():
    async def test():
        tagging = Tagging()
        for number in range(30):
            tagging.ask([[str(number)]], (None, number % 3))
        await tagging.all_of_them()
        for (_, nbest), sentences in tagging.batches:
            assert all(int(tokens[0]) % 3 == nbest for tokens in sentences)
    run(test)


def test_batching_a_full_queue_refuses_and_has_room_again():
    async def test():
        tagging = Tagging(most=100)
        first, second = tagging.ask([['a'] * 60]), tagging.ask([['a'] * 60])
        third = tagging.ask([['a'] * 60])
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as raised:
            await third
        assert (raised.value.status, raised.value.retry) == (503, 1)
        await tagging.all_of_them()
        assert len(await first) == len(await second) == 1
        again = tagging.ask([['a'] * 60])
        await tagging.all_of_them()
        assert await again
    run(test)


def test_batching_what_nobody_waits_for_is_not_tagged():
    async def test():
        tagging = Tagging()
        tagging.ask([['a']])
        given_up, kept = tagging.ask([['b']]), tagging.ask([['c']])
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.sleep(0)
        await tagging.all_of_them()
        assert [sentences for _, sentences in tagging.batches] == [[['a']], [['c']]] and await kept == ['C']
    run(test)


def test_batching_the_end_of_the_tagger_is_told_to_all():
    async def test():
        tagging = Tagging()
        asked = [tagging.ask([['a']]), tagging.ask([['b']])]
        await asyncio.sleep(0)
        tagging.queue.fail(RequestError(503, 'gone'))
        for each in asked:
            with pytest.raises(RequestError, match='gone'):
                await each
    run(test)
