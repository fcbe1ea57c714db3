"""The scores of a model on dev and test, and the record of them in scores.json."""

from collections.abc import Mapping
from typing import Any

from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import Decoder, Learner
from ms_crf.models.learning import tags_of
from ms_crf.text.metrics import Score, as_record, score_in, table
from ms_crf.text.partial import in_scheme


def score_of(part: str, corpora: Corpora, learner: Learner, decoder: Decoder) -> Score:
    """Returns the score of a model on 'dev' or 'test'."""
    predicted = predicted_of(part, corpora, learner, decoder)
    return score_in(corpora.file_scheme, corpora.gold[part], predicted, corpora.written, corpora.raw.get(part))


def predicted_of(part: str, corpora: Corpora, learner: Learner, decoder: Decoder) -> list[list[str]]:
    """Returns the tags that a model gives the sentences of 'dev' or 'test', in the scheme of its output."""
    predicted = tags_of(decoder, learner.encoded[part])
    if corpora.written != corpora.scheme:
        predicted = [in_scheme(tags, corpora.written) for tags in predicted]
    return predicted


def scores_record(best_epoch: int, epochs: int, results: Mapping[str, Score], shift: float = 0.0) -> dict[str, Any]:
    """Returns the content of scores.json: the best epoch, the number of epochs, the shift of the score of O, and the
    scores of each part."""
    return {'best_epoch': best_epoch, 'epochs': epochs, 'shift': shift,
            **{part: {**as_record(result), 'table': table(result)} for part, result in results.items()}}
