"""The server with a network under load: answers equal `Tagger.tag`, whatever other requests share their batch."""

import random
import threading

from ms_crf import Tagger

import pytest

from support.servers import SECONDS, check_answer, said_by

pytestmark = pytest.mark.slow

WORDS = 'to in at on by Xan Yel abracadabra Zoe unknown'.split()


def requests_of(seed):
    """Random requests with one to forty sentences and various options."""
    rng = random.Random(seed)
    for _ in range(25):
        sentences = [rng.choices(WORDS, k=rng.choice((0, 1, 3, 5, 9))) for _ in range(rng.choice((1, 1, 2, 40)))]
        options = rng.choice(({}, {}, {'confidence': False}, {'nbest': 3}))
        yield {'sentences': sentences, **options}


def test_network_served_answers_are_those_of_a_tagger_whoever_asks_beside(network_server):
    run, server = network_server
    tagger, answers = Tagger.load(run), {}

    def ask(seed):
        connection = server.connect()
        answers[seed] = [server.tag(request, connection) for request in requests_of(seed)]
        connection.close()

    threads = [threading.Thread(target=ask, args=[seed], daemon=True) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    for seed in range(8):
        for request, (status, answer) in zip(requests_of(seed), answers[seed], strict=True):
            assert status == 200
            check_answer(answer, said_by(tagger, request))
    metrics = server.metrics()
    assert metrics['ms_crf_batch_sentences_count'] < metrics['ms_crf_request_seconds_count'] == 200


def test_network_served_more_taggings_than_there_are(network_server):
    run, server = network_server
    [tagged] = Tagger.load(run).tag([['to']], nbest=10)
    status, answer = server.tag({'tokens': ['to'], 'nbest': 10})
    assert status == 200
    assert [other['tags'] for other in answer['sentences'][0]['alternatives']] == [
        other.tags for other in tagged.alternatives]
