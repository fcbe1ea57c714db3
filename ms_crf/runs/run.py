"""`SavedRun`: a run directory opened for reading, whose records are read only once."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ms_crf.base.errors import CorpusError, OptionError, argument, brief, visible
from ms_crf.base.fields import Fault, checked, errors_in, load_record, parse_json
from ms_crf.base.files import PathLike
from ms_crf.runs import checksums, model_types, records
from ms_crf.runs.model_types import ModelClass
from ms_crf.runs.options import Options
from ms_crf.text.metrics import RATES
from ms_crf.text.schemes import PLAIN, SCHEMES, allowed_transitions
from ms_crf.text.splitting import splitter_fault

import numpy as np

R = TypeVar('R', bound='Run')
T = TypeVar('T', bound='HasTags')


class HasTags(Protocol):
    """The members of vocabulary classes that a run uses; `ms_crf.models.base.Tags` implements them."""

    tags: list[str]

    @classmethod
    def from_json(cls: type[T], record: Any) -> T:
        """Creates a vocabulary from the contents of vocab.json; raises ValueError if these are invalid."""


@dataclass(kw_only=True)
class RunConfig:
    """The keys of config.json that are common to all model types."""

    format: int = checked(choices=(records.FORMAT,), advice='it was written by another version of ms_crf, train again')
    options: dict
    scheme: str = checked(choices=SCHEMES)
    found_scheme: str = checked(choices=SCHEMES)
    written_scheme: str = checked(None, choices=SCHEMES)  # scheme of predictions; missing in earlier runs
    splitter: str = checked(None, must=splitter_fault)    # missing in earlier runs


def _rates_fault(scores: dict) -> Fault | None:
    """Returns the `Fault` of the scores of a part, which must contain all rates; None if they are valid."""
    for name in RATES:
        if not isinstance(scores.get(name), (int, float)) or isinstance(scores[name], bool):
            return f'scores with the number "{name}"', brief(scores.get(name))
    return None


@dataclass(kw_only=True)
class RunScores:
    """The keys of scores.json, the scores of a finished training."""

    best_epoch: int = checked(least=0)
    epochs: int = checked(least=0)
    shift: float = checked(0.0, least=-100, most=100)    # shift of the score of O; missing in earlier runs
    dev: dict = checked(must=_rates_fault)
    test: dict = checked(None, must=_rates_fault)


class SavedRun:
    """A run directory opened for reading; created by `SavedRun.open` and `SavedRun.newest`.

    config.json and checksums.json are read when the run is opened, vocab.json at its first use, each file once.
    Weights, metrics and scores are read at each access.

    The subclass `ms_crf.tagging.tagger.Run` also loads taggers; it is in a folder that may import them.

    Attributes:
        path: path of the folder.
        config: contents of config.json.
        kind: the class of the model, see `ms_crf.runs.model_types`.
        scheme: tag scheme of the model.
        file_scheme: tag scheme of the training files.
        written_scheme: tag scheme of predictions; None in runs of earlier versions, which predict in `scheme`.
        splitter: name of the splitter of raw text; None in runs of earlier versions.
    """

    def __init__(self, path: PathLike, config: dict[str, Any], kind: type[ModelClass],
                 verified: checksums.Verified) -> None:
        self.path, self.config, self.kind, self._verified = Path(path), config, kind, verified
        self.scheme, self.file_scheme = config['scheme'], config['found_scheme']
        self.written_scheme, self.splitter = config.get('written_scheme'), config.get('splitter')

    found_scheme = property(lambda self: self.file_scheme, doc='Former name of `file_scheme`.')

    @classmethod
    def open(cls: type[R], path: PathLike) -> R:
        """Opens a run directory.

        Raises:
            CorpusError: the folder is not a run, is damaged or of another version, or its model type is unknown.
        """
        verified, source = checksums.Verified(path), Path(path) / records.CONFIG
        config = verified.json(records.CONFIG)
        with errors_in(source):
            load_record(RunConfig, config)
        name = config.get('model')
        row = model_types.TYPES.get(name) if isinstance(name, str) else None
        if row is None:
            raise CorpusError(source, None, f'expected "model" to be {" or ".join(model_types.TYPES)}, got '
                                            f'{brief(name)}; for a custom model type name the program that '
                                            f'registers it with {argument("plugin")}; if another version of ms_crf '
                                            'wrote it, train again')
        kind = row.load()
        with errors_in(source):
            kind.check_config(config)
        return cls(path, config, kind, verified)

    @classmethod
    def newest(cls: type[R], folder: PathLike = 'runs') -> R:
        """Opens the run with the newest weights in a folder; raises NoRun if there is none."""
        return cls.open(records.newest(folder))

    @property
    def kind_name(self) -> str:
        """The name of the model type."""
        return self.kind.name

    @property
    def uses_mindspore(self) -> bool:
        """Whether the model computes with MindSpore, and therefore on a device."""
        return self.kind.uses_mindspore

    @cached_property
    def options(self) -> Options:
        """The options of the training."""
        return self.options_with()

    def options_with(self, **others: Any) -> Options:
        """Returns the options of the training, with `others` replacing some; raises OptionError if these are invalid.

        Options that runs of earlier versions lack get the values with which these versions trained.
        """
        source = self.path / records.CONFIG
        try:
            # Earlier versions had no unknown tags, and '?' may be an ordinary plain tag.
            earlier = {'unknown_tag': ''} if self.file_scheme == PLAIN else {}
            values = {**earlier, 'ngrams': False, 'balance': False, **Options.read(self.config['options'], source)}
            Options(**values).check()
        except OptionError as error:
            raise CorpusError(source, None, str(error).removeprefix(visible(f'{source}: '))) from None
        options = Options(**{**values, **others}).settled(False)
        options.check()
        return options

    @property
    def unknown_tag(self) -> str:
        """The mark of an unknown tag; '' for no mark."""
        return self.options.unknown_tag

    @cached_property
    def vocabulary_record(self) -> Any:
        """The parsed contents of vocab.json."""
        return self._verified.json(records.VOCABULARY)

    def vocabulary(self, kind: type[T]) -> T:
        """Returns vocab.json as an instance of a vocabulary class; raises CorpusError if it is invalid."""
        with errors_in(self.path / records.VOCABULARY):
            vocabulary = kind.from_json(self.vocabulary_record)
            if self.scheme != PLAIN:
                allowed_transitions(self.scheme, vocabulary.tags)
        return vocabulary

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl, one per epoch."""
        path = self.path / records.METRICS
        if not path.exists():
            return []
        entries = [parse_json(path, line, 'training') for line in self._verified.read(path.name).splitlines()]
        if not all(isinstance(record, dict) for record in entries):
            raise CorpusError(path, None, 'expected a JSON object in each line, as training writes them')
        return entries

    @property
    def scores(self) -> dict[str, Any] | None:
        """The contents of scores.json, see `RunScores`; None if the training is not finished."""
        path = self.path / records.SCORES
        if not path.exists():
            return None
        record = self._verified.json(path.name)
        with errors_in(path):
            load_record(RunScores, record)
        return record

    def tensors(self, name: str = records.WEIGHTS) -> dict[str, np.ndarray]:
        """Returns the arrays of a MindSpore checkpoint; raises CorpusError if it is missing or damaged."""
        return records.read_tensors(self.path / name, self._verified)

    def check(self, name: str) -> None:
        """Raises CorpusError if a file has changed since the training wrote it."""
        self._verified.check(name)

    @cached_property
    def digest(self) -> str:
        """A digest of configuration, vocabulary and weights, which identifies the model."""
        listed = self._verified.listed or {}
        digests = {}
        for name in (records.CONFIG, records.VOCABULARY, records.NGRAMS, records.TABLES, records.WEIGHTS):
            if name in listed:
                digests[name] = listed[name][-1]
            elif (self.path / name).exists():
                digests[name] = self._verified.digests.get(name) or checksums.file_digest(self.path / name)
        return checksums.digest(digests)

    @property
    def version(self) -> str:
        """The name of the run and the beginning of its digest, such as 'mine@0123456789ab'."""
        return f'{os.path.basename(os.path.abspath(self.path))}@{self.digest[:12]}'


Run = SavedRun                 # the name in `ms_crf.extend`
