"""The arguments of functions that train several times: with several seeds, on folds, or several models."""

from collections.abc import Mapping
from dataclasses import dataclass

from ms_crf.base.arguments import DIR, FILE, option
from ms_crf.base.errors import OptionError, argument, meant
from ms_crf.runs.arguments import MOST_TRAININGS, Computing
from ms_crf.runs.model_types import MODELS
from ms_crf.runs.options import Options

HEADS = ('softmax', 'crf')     # of the default model


@dataclass
class CompareArguments(Computing):
    """What `compare` takes beside `Options`."""

    models: str = option('hmm,softmax,crf', '', 'some of hmm, softmax, crf, and of custom model types',
                         'NAMES')
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
