"""A model that is learned at once, not in steps: scored and saved."""

import contextlib
import json
from pathlib import Path
from typing import Any

from ms_crf.files import temporary
from ms_crf.models.base import Learner, tags_of
from ms_crf.runs import records
from ms_crf.runs.place import Place
from ms_crf.runs.saving import saving
from ms_crf.text.dataset import Corpora, score_in
from ms_crf.text.metrics import as_record, table


class AtOnce:
    """One run.

    Args:
        place: of the run directory, which exists, with the model in it.
        corpora: its sentences, in one scheme.
        learner: the model that was learned from them.
        seconds: that it took to learn.
    """

    stoppable = False
    epoch = step_in_epoch = 0

    def __init__(self, place: Place, corpora: Corpora, learner: Learner, seconds: float) -> None:
        self.place, self.corpora, self.learner, self.seconds = place, corpora, learner, seconds

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.place.folder

    def run(self) -> dict:
        """Scores and saves the model; returns what scores.json holds. Then the place is free."""
        # If it does not take the place of an earlier run, its folder goes.
        draft: Any = contextlib.nullcontext() if self.place.former is None else temporary(self.folder)
        try:
            with draft:
                return self._run()
        finally:
            self.place.release()

    def _run(self) -> dict:
        decoder = self.learner.decoder(None, None)
        scores: dict[str, Any] = {'best_epoch': 0, 'epochs': 0}
        for part in ('dev', 'test'):
            if part in self.corpora.parts:
                predicted = tags_of(decoder, self.learner.encoded[part])
                result = score_in(self.corpora.found, self.corpora.gold[part], predicted, self.corpora.scheme)
                scores[part] = {**as_record(result), 'table': table(result)}
        metrics = {'epoch': 0, **{name: value for name, value in scores['dev'].items() if name != 'table'},
                   'seconds': round(self.seconds, 3)}
        with saving(self.folder) as new:
            new.text(records.METRICS, json.dumps(metrics) + '\n')
            new.json(records.SCORES, scores)
        self.place.take()
        return scores
