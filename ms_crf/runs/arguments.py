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

MOST_RUNS = 12                 # in one report
MOST_TRAININGS = 1000          # of one model in an experiment


@dataclass
class CommonArguments(Arguments):
    """What every function takes that computes."""

    plugin: str = option(None, '', 'Python file that registers kinds of model of your own; it is run; see the topic '
                         '"Custom models" in the documentation', FILE)
    device: str = option('auto', '', 'where to compute', choices=DEVICES)


@dataclass
class TrainArguments(CommonArguments):
    """What `train` takes beside the `Options` of a run."""

    config: str = option(None, '', 'JSON object of options; the command line wins', FILE)
    resume: str = option(None, '', f'go on with a run that was stopped; takes {argument("device")}, '
                         f'{argument("epochs")}, {argument("patience")}, {argument("learning_rate")} and '
                         f'{argument("encoder_lr")}, which the run keeps, and {argument("train")}, {argument("dev")} '
                         f'and {argument("test")} if these files have moved, nothing else', DIR)
    workers: int = option(1, '', 'processes on this machine that train together, each on its share of every batch; for '
                          'several machines see the topic "Distributed training" in the documentation', 'N', least=1,
                          most=1024)
    seeds: int = option(None, '', f'train with N seeds, from {argument("seed")} on, each in a folder below '
                        f'{argument("save")}, seed-1 and so on, and make a table of all; finished runs are kept, and '
                        'the same command resumes', 'N', least=1, most=MOST_TRAININGS)
    jobs: int = option(None, '', f'number of trainings at the same time, with {argument("seeds")} (default: 1)', 'N',
                       least=1, most=MOST_TRAININGS)
    overwrite: bool = option(False, '', f'replace the run that {argument("save")} names, if there is one; it stays '
                             'until the first epoch of the new one is saved, which is in .NAME.new beside it until '
                             'then')

    def reasons(self) -> Mapping[str, str | None]:
        """Why arguments have no effect beside the others."""
        return {'jobs': None if self.seeds else f'without {argument("seeds")}'}


@dataclass
class ModelArguments(CommonArguments):
    """What every function takes that runs one model."""

    run: str = option(None, '', 'run directory (default: the newest in runs/)', DIR)
    mindir: str = option(None, '', 'graph that ms_crf.export has made, with its .json beside it', FILE)

    def check(self) -> None:
        """Raises OptionError also if two models are named."""
        super().check()
        if self.run and self.mindir:
            raise OptionError(f'{argument("run")} and {argument("mindir")} name two models, expected one of them')


@dataclass
class ExportArguments(CommonArguments):
    """What `export` takes."""

    run: str = option(None, '', 'run directory (default: the newest in runs/)', DIR)
    output: str = option('model.mindir', '', 'graph to write', FILE)
    confidence: bool = option(False, '', 'posteriors as well, from which confidences are computed')
    emissions: bool = option(False, '', 'stop at score and history, for programs that call post_decode')
    static: list[int] = option(None, '', 'only for batches of B sentences, padded to L tokens', ('B', 'L'), several=2)

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
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
    """What every function takes that scores tagged sentences and draws samples of them."""

    columns: str = option('0,-1', '', 'column of the token and of the tag, from 0, or from -1 backwards', 'TOKEN,TAG')
    unknown_tag: str = option(None, '', 'what stands in place of the tag of a token that nobody has judged, which does '
                              "not count; '' for nothing (default: as the model was trained)", 'TAG')
    resamples: int = option(bootstrap.RESAMPLES, '', 'how many times sentences are drawn for the intervals', 'N',
                            least=bootstrap.LEAST, most=bootstrap.MOST)
    seed: int = option(bootstrap.SEED, '', 'of these draws', 'N', least=0, most=2 ** 31 - 1)

    @property
    def pair(self) -> tuple[int, ...]:
        """The columns of token and tag; () if they are not named."""
        return whole_numbers('columns', self.columns, [2]) if self.columns is not None else ()

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        _ = self.pair


@dataclass
class EvaluateArguments(ScoringArguments, ModelArguments):
    """What `evaluate` takes."""

    input: str = option(None, '', 'tagged sentences: columns, or JSON lines (.jsonl)', FILE, required=True)
    json: str = option(None, '', 'write all figures there', FILE)

    def reasons(self) -> Mapping[str, str | None]:
        """Why arguments have no effect beside the others."""
        return {'columns': without_columns(self.input)}


@dataclass
class ReportArguments(ScoringArguments, CommonArguments):
    """What `report` takes."""

    runs: list = option(None, '', 'run directories (default: the newest in runs/)', 'RUN', positional=True,
                        several=True)
    input: str = option(None, '', 'tagged sentences (default: the test file that the first run names, or else its dev '
                        'file)', FILE)
    output: str = option('report.html', '', 'page to write', FILE)
    errors: int = option(50, '', 'sentences with errors to show, the worst first', 'N', least=0, most=10_000)
    columns: str = option(None, '', 'column of the token and of the tag, from 0, or from -1 backwards (default: as the '
                          'first run was trained)', 'TOKEN,TAG')

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        runs = self.runs or []
        for name in runs:
            if not name:
                raise OptionError(f'{argument("runs")} must be a name, got nothing')
            check_path(argument('runs'), name)
        if len(runs) > MOST_RUNS:
            raise OptionError(f'{argument("runs")} must be at most {MOST_RUNS} directories, got {len(runs)}')
        real = [os.path.realpath(run) for run in runs]
        twice = next((run for place, run in enumerate(runs) if real[place] in real[:place]), None)
        if twice is not None:
            raise OptionError(f'{argument("runs")} names {twice} twice, expected it once')

    def reasons(self) -> Mapping[str, str | None]:
        """Why arguments have no effect beside the others."""
        return {'errors': 'with several runs' if self.runs and len(self.runs) > 1 else None,
                'columns': without_columns(self.input) if self.input else None}


HEADS = ('softmax', 'crf')     # of the default model


@dataclass
class CompareArguments(CommonArguments):
    """What `compare` takes beside `Options`."""

    models: str = option('hmm,softmax,crf', '', 'some of hmm, softmax, crf, and of custom model types', 'NAMES')
    seeds: int = option(3, '', 'runs of each model that is random', 'N', least=1, most=MOST_TRAININGS)
    folds: int = option(None, '', 'cross-validation: cut the training sentences into K folds, each of which is '
                        'tested once by a model of the others; the next fold is dev, unless there is a dev file; '
                        f'{argument("seed")} is the seed of the shuffle and of all runs (default: 1)', 'K', least=2,
                        most=MOST_TRAININGS)
    jobs: int = option(1, '', 'number of trainings at the same time', 'N', least=1, most=MOST_TRAININGS)
    json: str = option(None, '', 'write all figures of all runs to FILE', FILE)
    keep: str = option(None, '', 'keep the run directories in DIR', DIR)
    config: str = option(None, '', 'JSON object of options; the command line wins', FILE)

    @property
    def names(self) -> list[str]:
        """The models."""
        return self.models.split(',')

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
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
        """Why arguments have no effect with the others."""
        return {'seeds': f'with {argument("folds")}, each of which is trained with the seed of {argument("seed")}'
                if self.folds else None}


def selected_by(model: str) -> dict[str, str]:
    """Returns the options that one of the names of `models` stands for."""
    return {'head': model} if model in HEADS else {'model': model}
