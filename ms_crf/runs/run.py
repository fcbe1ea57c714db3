"""A run directory that is opened once: its records are read a single time, and functions take the `SavedRun`."""

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
    """What a class of vocabularies has; `ms_crf.models.base.Tags` is one."""

    tags: list[str]

    @classmethod
    def from_json(cls: type[T], record: Any) -> T:
        """From what vocab.json holds; raises ValueError if that is invalid."""


@dataclass(kw_only=True)
class RunConfig:
    """What config.json of every run holds, whatever its model type puts there."""

    format: int = checked(choices=(records.FORMAT,), advice='another version of this program made it, train again')
    options: dict
    scheme: str = checked(choices=SCHEMES)
    found_scheme: str = checked(choices=SCHEMES)
    written_scheme: str = checked(None, choices=SCHEMES)  # of the tags that come out; earlier runs: that of training
    splitter: str = checked(None, must=splitter_fault)    # earlier runs do not say


def _rates_fault(scores: dict) -> Fault | None:
    """What is wrong with the scores on a part: all rates have to be there."""
    for name in RATES:
        if not isinstance(scores.get(name), (int, float)) or isinstance(scores[name], bool):
            return f'scores with the number "{name}"', brief(scores.get(name))
    return None


@dataclass(kw_only=True)
class RunScores:
    """What scores.json holds: the end of a training in steps."""

    best_epoch: int = checked(least=0)
    epochs: int = checked(least=0)
    shift: float = checked(0.0, least=-100, most=100)    # of the score of O; earlier runs have none
    dev: dict = checked(must=_rates_fault)
    test: dict = checked(None, must=_rates_fault)


class SavedRun:
    """A run directory; `SavedRun.open` and `SavedRun.newest` make one.

    config.json and checksums.json are read when the run is opened, vocab.json when it is first asked for, each once.
    Weights, metrics and scores are read whenever they are asked for.

    A run knows the class of its model only by what it asks of that class, see `ms_crf.runs.model_types`. The class of
    the same name in `ms_crf.tagging.tagger` also gives a tagger; it lies in the folder that may know taggers.

    Attributes:
        path: of the folder.
        config: what config.json holds.
        kind: the class of the model.
        scheme, found_scheme, written_scheme: the schemes of the training, of its files, and of the tags that come out;
            the last is None in runs of earlier versions, which write the scheme of the training.
        splitter: the name of the splitter of raw text; None in runs of earlier versions.
    """

    def __init__(self, path: PathLike, config: dict[str, Any], kind: type[ModelClass],
                 verified: checksums.Verified) -> None:
        self.path, self.config, self.kind, self._verified = Path(path), config, kind, verified
        self.scheme, self.found_scheme = config['scheme'], config['found_scheme']
        self.written_scheme, self.splitter = config.get('written_scheme'), config.get('splitter')

    @classmethod
    def open(cls: type[R], path: PathLike) -> R:
        """Opens a run directory.

        Raises:
            CorpusError: it is no run, it is damaged or of another version, or its model type is unknown.
        """
        verified, source = checksums.Verified(path), Path(path) / records.CONFIG
        config = verified.json(records.CONFIG)
        with errors_in(source):
            load_record(RunConfig, config)
        name = config.get('model')
        row = model_types.TYPES.get(name) if isinstance(name, str) else None
        if row is None:
            raise CorpusError(source, None, f'expected "model" to be {" or ".join(model_types.TYPES)}, got '
                                            f'{brief(name)}; if it is a kind of your own, load the program that '
                                            f'registers it as a plugin ({argument("plugin")}); if another version of '
                                            'ms_crf made it, train again')
        kind = row.load()
        with errors_in(source):
            kind.check_config(config)
        return cls(path, config, kind, verified)

    @classmethod
    def newest(cls: type[R], folder: PathLike = 'runs') -> R:
        """Opens the run in a folder whose weights are the newest; raises NoRun if there is none."""
        return cls.open(records.newest(folder))

    @property
    def kind_name(self) -> str:
        """The name of its model type."""
        return self.kind.name

    @property
    def uses_mindspore(self) -> bool:
        """Whether its model computes with MindSpore, and so on a device."""
        return self.kind.uses_mindspore

    @cached_property
    def options(self) -> Options:
        """The options of its training."""
        return self.options_with()

    def options_with(self, **others: Any) -> Options:
        """The options of its training with others in place of some; raises OptionError if these are invalid.

        Runs of earlier versions lack some options, and are read as they were made.
        """
        source = self.path / records.CONFIG
        try:
            # Earlier versions took every tag for one of its own, and '?' may be one among plain tags.
            earlier = {'unknown_tag': ''} if self.found_scheme == PLAIN else {}
            values = {**earlier, 'ngrams': False, 'balance': False, **Options.read(self.config['options'], source)}
            Options(**values).check()
        except OptionError as error:
            raise CorpusError(source, None, str(error).removeprefix(visible(f'{source}: '))) from None
        options = Options(**{**values, **others}).settled(False)
        options.check()
        return options

    @property
    def unknown_tag(self) -> str:
        """What stands in place of a tag that nobody has judged; '' for nothing."""
        return self.options.unknown_tag

    @cached_property
    def vocabulary_record(self) -> Any:
        """What vocab.json holds."""
        return self._verified.json(records.VOCABULARY)

    def vocabulary(self, kind: type[T]) -> T:
        """What vocab.json holds, read by a class of vocabularies; raises CorpusError if it is invalid."""
        with errors_in(self.path / records.VOCABULARY):
            vocabulary = kind.from_json(self.vocabulary_record)
            if self.scheme != PLAIN:
                allowed_transitions(self.scheme, vocabulary.tags)
        return vocabulary

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The records of metrics.jsonl, one an epoch."""
        path = self.path / records.METRICS
        if not path.exists():
            return []
        found = [parse_json(path, line, 'training') for line in self._verified.read(path.name).splitlines()]
        if not all(isinstance(record, dict) for record in found):
            raise CorpusError(path, None, 'expected a JSON object a line, as training writes them')
        return found

    @property
    def scores(self) -> dict[str, Any] | None:
        """What scores.json holds, a `RunScores` and more; None as long as the training is not at its end."""
        path = self.path / records.SCORES
        if not path.exists():
            return None
        record = self._verified.json(path.name)
        with errors_in(path):
            load_record(RunScores, record)
        return record

    def tensors(self, name: str = records.WEIGHTS) -> dict[str, np.ndarray]:
        """The arrays in a checkpoint of MindSpore; raises CorpusError if it is missing or damaged."""
        return records.read_tensors(self.path / name, self._verified)

    def check(self, name: str) -> None:
        """Raises CorpusError if a file is not as the training wrote it."""
        self._verified.check(name)

    @cached_property
    def digest(self) -> str:
        """A digest of configuration, vocabulary and weights, which tells the model of a run from others."""
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
        """Its name, and the beginning of its digest, such as 'mine@0123456789ab'."""
        return f'{os.path.basename(os.path.abspath(self.path))}@{self.digest[:12]}'


Run = SavedRun                 # the name in `ms_crf.extend`
