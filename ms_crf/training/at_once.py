"""A model that is learned at once, not in steps: scored and saved."""

import contextlib
import json
from pathlib import Path
from typing import Any

from ms_crf.files import temporary
from ms_crf.models.base import Learner, tags_of
from ms_crf.runs import records
from ms_crf.runs.directory import RunDirectory
from ms_crf.runs.saving import saving
from ms_crf.text.dataset import Corpora, score_in
from ms_crf.text.metrics import as_record, table


class AtOnce:
    """One run.

    Args:
        directory: of the run, which exists, with the model in it.
        corpora: its sentences, in one scheme.
        learner: the model that was learned from them.
        seconds: that it took to learn.
    """

    stoppable = False
    epoch = step_in_epoch = 0

    def __init__(self, directory: RunDirectory, corpora: Corpora, learner: Learner, seconds: float) -> None:
        self.directory, self.corpora, self.learner, self.seconds = directory, corpora, learner, seconds

    @property
    def folder(self) -> Path:
        """The run directory."""
        return self.directory.folder

    def run(self) -> dict:
        """Scores and saves the model; returns what scores.json holds. Then the directory is free."""
        # If it can't replace an earlier run after all, its folder goes.
        draft: Any = contextlib.nullcontext() if self.directory.earlier is None else temporary(self.folder)
        try:
            with draft:
                return self._run()
        finally:
            self.directory.release()

    def _run(self) -> dict:
        decoder = self.learner.decoder(None, None)
        scores: dict[str, Any] = {'best_epoch': 0, 'epochs': 0}
        for part in ('dev', 'test'):
            if part in self.corpora.parts:
                predicted = tags_of(decoder, self.learner.encoded[part])
                result = score_in(self.corpora.file_scheme, self.corpora.gold[part], predicted, self.corpora.scheme)
                scores[part] = {**as_record(result), 'table': table(result)}
        metrics = {'epoch': 0, **{name: value for name, value in scores['dev'].items() if name != 'table'},
                   'seconds': round(self.seconds, 3)}
        with saving(self.folder) as new:
            new.text(records.METRICS, json.dumps(metrics) + '\n')
            new.json(records.SCORES, scores)
        self.directory.publish()
        return scores
