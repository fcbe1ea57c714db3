"""The arguments of functions in `ms_crf.api`: defaults, bounds, help, and which arguments have no effect together."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ms_crf.base.arguments import DIR, FILE, Arguments, check_path, option, whole_numbers
from ms_crf.base.environment import DEVICES
from ms_crf.base.errors import OptionError, argument, meant
from ms_crf.formats.registry import without_columns
from ms_crf.runs.model_types import MODELS
from ms_crf.runs.options import Options
from ms_crf.text import bootstrap

MOST_RUNS = 12                 # limit of runs in a report
MOST_TRAININGS = 1000          # limit of trainings of one model in an experiment


@dataclass
class CommonArguments(Arguments):
    """Arguments of every function that trains or runs models."""

    plugin: str = option(None, '', 'Python file with custom model types; it is executed; see the topic "Custom models" '
                         'in the documentation', FILE)
    device: str = option('auto', '', 'device to compute on; auto is the first usable device of Ascend, GPU and CPU',
                         choices=DEVICES)


@dataclass
class TrainArguments(CommonArguments):
    """Arguments of `train` in addition to the `Options` of a run."""

    config: str = option(None, '', 'JSON file with an object of options, such as {"epochs": 10}; options on the '
                         'command line override the file', FILE)
    resume: str = option(None, '', f'resume a stopped training; can be combined only with {argument("device")}, with '
                         f'{argument("epochs")}, {argument("patience")}, {argument("learning_rate")} and '
                         f'{argument("encoder_lr")}, whose new values the run keeps, and with {argument("train")}, '
                         f'{argument("dev")} and {argument("test")} if these files have moved', DIR)
    workers: int = option(1, '', 'number of processes on this machine for data-parallel training, which split every '
                          'batch; for several machines see the topic "Distributed training" in the documentation', 'N',
                          least=1, most=1024)
    seeds: int = option(None, '', f'train N times, with consecutive seeds beginning at {argument("seed")}, in the '
                        f'folders seed-1, seed-2 ... within {argument("save")}, and write a table of all scores; the '
                        'same command resumes stopped trainings and keeps finished ones', 'N', least=1,
                        most=MOST_TRAININGS)
    jobs: int = option(None, '', f'number of trainings to run at the same time, with {argument("seeds")} (default: 1)',
                       'N', least=1, most=MOST_TRAININGS)
    overwrite: bool = option(False, '', f'replace an existing run in the folder {argument("save")}; the old run stays '
                             'until the first epoch of the new run is saved, and until then the new run is in the '
                             'hidden folder .NAME.new in the same place')

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect."""
        return {'jobs': None if self.seeds else f'without {argument("seeds")}'}


@dataclass
class ModelArguments(CommonArguments):
    """Arguments of every function that runs one model."""

    run: str = option(None, '', 'run directory of the model (default: the newest run in runs/)', DIR)
    mindir: str = option(None, '', 'exported graph to use instead of a run; needs its .json file in the same folder',
                         FILE)

    def check(self) -> None:
        """Raises OptionError if a value is invalid, or if two models are named."""
        super().check()
        if self.run and self.mindir:
            raise OptionError(f'{argument("run")} and {argument("mindir")} name two models, expected one of them')


@dataclass
class ExportArguments(CommonArguments):
    """Arguments of `export`."""

    run: str = option(None, '', 'run directory of the model (default: the newest run in runs/)', DIR)
    output: str = option('model.mindir', '', 'MindIR file to write; a .json file with the same name is also written',
                         FILE)
    confidence: bool = option(False, '', 'add posteriors to the outputs of the graph, from which programs compute '
                              'confidences')
    emissions: bool = option(False, '', 'output score and history instead of paths, for programs that call post_decode')
    static: list[int] = option(None, '', 'fix the input shape to batches of B sentences with L tokens (default: any '
                               'shape)', ('B', 'L'), several=2)

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        if self.confidence and self.emissions:
            raise OptionError(f'argument {argument("confidence")}: not allowed with argument {argument("emissions")}')
        if not self.output.endswith('.mindir'):
            raise OptionError(f'{argument("output")} must end in .mindir, got {self.output}')
        if self.static and (len(self.static) != 2 or min(self.static) < 1):
            raise OptionError(f'{argument("static")} must be two numbers of at least 1, got '
                              f'{" ".join(map(str, self.static))}')


@dataclass
class ScoringArguments(Arguments):
    """Arguments of every function that computes scores with bootstrap confidence intervals."""

    columns: str = option('0,-1', '', 'indices of the columns of token and tag, counted from 0; -1 is the last column',
                          'TOKEN,TAG')
    unknown_tag: str = option(None, '', "mark in place of the tag of an unlabelled token, which scores ignore; '' for "
                              'no mark (default: as in the training of the model)', 'TAG')
    resamples: int = option(bootstrap.RESAMPLES, '', 'number of bootstrap samples for the confidence intervals', 'N',
                            least=bootstrap.LEAST, most=bootstrap.MOST)
    seed: int = option(bootstrap.SEED, '', 'random seed of the bootstrap samples', 'N', least=0, most=2 ** 31 - 1)

    @property
    def pair(self) -> tuple[int, ...]:
        """Indices of the columns of token and tag; () if `columns` is None."""
        return whole_numbers('columns', self.columns, [2]) if self.columns is not None else ()

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        _ = self.pair


@dataclass
class EvaluateArguments(ScoringArguments, ModelArguments):
    """Arguments of `evaluate`."""

    input: str = option(None, '', 'file of tagged sentences to score: columns, or JSON lines (.jsonl)', FILE,
                        required=True)
    json: str = option(None, '', 'JSON file to write all scores to', FILE)

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect."""
        return {'columns': without_columns(self.input)}


@dataclass
class ReportArguments(ScoringArguments, CommonArguments):
    """Arguments of `report`."""

    runs: list = option(None, '', 'run directories to report on (default: the newest run in runs/)', 'RUN',
                        positional=True, several=True)
    input: str = option(None, '', 'file of tagged sentences to score (default: the test file of the first run, or its '
                        'dev file if it has no test file)', FILE)
    output: str = option('report.html', '', 'HTML file to write', FILE)
    errors: int = option(50, '', 'maximum number of sentences in the error list, most errors first; 0 for none', 'N',
                         least=0, most=10_000)
    columns: str = option(None, '', 'indices of the columns of token and tag, counted from 0; -1 is the last column '
                          '(default: as in the training of the first run)', 'TOKEN,TAG')

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        runs = self.runs or []
        for name in runs:
            if not name:
                raise OptionError(f'{argument("runs")} must be a name, got nothing')
            check_path(argument('runs'), name)
        if len(runs) > MOST_RUNS:
            raise OptionError(f'{argument("runs")} must be at most {MOST_RUNS} directories, got {len(runs)}')
        real = [os.path.realpath(run) for run in runs]
        twice = next((run for index, run in enumerate(runs) if real[index] in real[:index]), None)
        if twice is not None:
            raise OptionError(f'{argument("runs")} names {twice} twice, expected it once')

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect."""
        return {'errors': 'with several runs' if self.runs and len(self.runs) > 1 else None,
                'columns': without_columns(self.input) if self.input else None}


HEADS = ('softmax', 'crf')     # output layers of the default model type


@dataclass
class CompareArguments(CommonArguments):
    """Arguments of `compare` in addition to `Options`."""

    models: str = option('hmm,softmax,crf', '', 'models to compare, separated by commas: hmm, softmax, crf and custom '
                         'model types', 'NAMES')
    seeds: int = option(3, '', 'number of trainings of each model, with different random seeds; hmm is trained once',
                        'N', least=1, most=MOST_TRAININGS)
    folds: int = option(None, '', 'cross-validation with K folds of the training sentences: each fold is the test set '
                        'of a model trained on the rest; the next fold is the dev set, unless a dev file is named; '
                        f'{argument("seed")} is the random seed of folds and trainings (default: 1)', 'K', least=2,
                        most=MOST_TRAININGS)
    jobs: int = option(1, '', 'number of trainings to run at the same time', 'N', least=1, most=MOST_TRAININGS)
    json: str = option(None, '', 'JSON file to write the scores of all runs to', FILE)
    keep: str = option(None, '', 'folder to keep the run directories in (default: they are deleted)', DIR)
    config: str = option(None, '', 'JSON file with an object of options of train; options on the command line override '
                         'the file', FILE)

    @property
    def names(self) -> list[str]:
        """The names of the models as a list."""
        return self.models.split(',')

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        known = [model for model in (*MODELS, *HEADS) if model != Options().model]
        for model in self.names:
            if model not in known:
                raise OptionError(f'{argument("models")} must be some of {", ".join(known)}, got {model!r}'
                                  f'{meant(model, known)}')
            if self.names.count(model) > 1:
                raise OptionError(f'{argument("models")} must name each model once, got {model} '
                                  f'{self.names.count(model)} times')

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by argument, why it has no effect."""
        return {'seeds': f'with {argument("folds")}, each of which is trained with the seed of {argument("seed")}'
                if self.folds else None}


def selected_by(model: str) -> dict[str, str]:
    """Returns the options that select a model of the argument `models`."""
    return {'head': model} if model in HEADS else {'model': model}
