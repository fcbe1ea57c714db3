"""Training in steps: epochs of compiled steps, a score on dev after each, saved so that it can be resumed to the bit.

No random generator has a state that would have to be saved: the order of sentences, dropout and replaced words follow
from the seed and the position in the training.
"""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from ms_crf.base.errors import argument
from ms_crf.formats.dataset import Corpora
from ms_crf.models.base import StepLearner
from ms_crf.models.graphs import read_weights
from ms_crf.runs import records
from ms_crf.runs.directory import RunDirectory
from ms_crf.runs.options import Options
from ms_crf.runs.records import Saving, saving
from ms_crf.runs.run import SavedRun
from ms_crf.text.metrics import Score, as_record
from ms_crf.text.schemes import NEXT, OPEN, PLAIN
from ms_crf.training.schedules import FEW_STEPS, Best, LossScale, course_of, dropout, rate_at
from ms_crf.training.scores import balance, score_of, scores_record
from ms_crf.training.step import BETA1, BETA2, Optimizer, make_average, make_step
from ms_crf.training.watchers import NotFinite, Stopped, TrainingWatcher
from ms_crf.training.workers import ALONE, Workers, share_of_batch, tell

import mindspore as ms
import numpy as np

SAVE_SECONDS = 300           # within long epochs the state is saved this often


class Training:
    """A run that is trained in steps.

    Args:
        options: those of the run, checked.
        directory: the run directory, which exists; training goes on from the state in it, if there is one.
        corpora: the sentences, in one scheme.
        learner: makes networks and batches.
        watcher: is told how the training goes on.
        workers: those that train together, of which one saves, scores and shows.
    """

    stoppable = True           # after each step, when it is saved

    def __init__(self, options: Options, directory: RunDirectory, corpora: Corpora, learner: StepLearner,
                 watcher: TrainingWatcher, workers: Workers = ALONE) -> None:
        self.workers = workers
        self.options, self.directory, self.corpora, self.watcher = options, directory, corpora, watcher
        ms.set_seed(options.seed)
        self.learner = learner
        self.network = self.learner.network()
        kept = {weight.name for part in options.frozen() for weight in self.network.parts()[part]}
        self.optimizer = Optimizer(self.network, options.optimizer, options.momentum, options.weight_decay,
                                   options.clip, options.crf_rate, options.word_rate,
                                   options.encoder_lr / options.learning_rate, kept)
        self.scored, self.average = self.network, None
        if options.average > 0:
            self.scored = self.learner.network()
            self.scored.update_parameters_name('average.')
            for source, target in zip(self.network.trainable_params(), self.scored.trainable_params()):
                target.set_data(ms.Tensor(source.asnumpy()))
            self.average = make_average(self.network, self.scored, kept)
        self.steps_an_epoch = self._count_steps()
        self.course = course_of(self.steps_an_epoch, options.epochs, options.patience, options.warmup, options.decay)
        self._rate = partial(rate_at, options.schedule, options.learning_rate, epochs=self.course.epochs,
                             warmup=self.course.warmup, decay=self.course.decay)
        self.epoch = self.step_in_epoch = self.steps = 0
        judged = [[tag for tag in tags if OPEN not in tag] for tags in corpora.gold['dev']]
        self.best, self.loss_sum = Best(judged, corpora.file_scheme == PLAIN), 0.0
        self.metrics: list[dict] = []
        self.shifts: dict[int, float] = {}       # of the score of O in saved weights, by the epoch that they are of
        self.scaling = LossScale() if options.precision == 'mixed' else None
        #: what has a state of some numbers, by the names of these in the state
        self.measures: dict[str, Best | LossScale] = {'best': self.best}
        if self.scaling is not None:
            self.measures['loss_scale'] = self.scaling
        if directory.has_state():
            self._load_state()
        elif options.init:
            self.save()                                          # from here on it goes on without the run of --init
        tell(workers)                                            # all of them have loaded it
        if self.epoch:
            self.directory.publish()
        self.shapes: set = set()
        self.step = make_step(self.network, self.optimizer, self.scaling is not None, workers != ALONE)
        self.decoder = self.learner.decoder(self.scored, partial(watcher.compiled, 'tagging'))

    def _count_steps(self) -> int:
        """The number of steps in the first epoch; where epochs are long, the least that it can be."""
        judged = [sentence for sentence in self.corpora.parts['train'] if not {*sentence.tags} <= {OPEN, NEXT}]
        least = -(-len(judged) // self.options.batch_size)
        return least if least >= FEW_STEPS else len(self.learner.plan(np.random.default_rng([self.options.seed, 1])))

    # Saving and loading

    @property
    def folder(self) -> Path:
        """Where the run is now: another folder than the options say until it has replaced an earlier run."""
        return self.directory.folder

    def _parameters(self) -> list:
        """All Parameters that are saved in the state."""
        average = self.scored.trainable_params() if self.scored is not self.network else []
        return [*self.network.trainable_params(), *self.optimizer.state(), *average]

    def save(self, best: bool | None = None) -> None:
        """Saves the state of the training.

        Args:
            best: after an epoch, whether it is the best so far: then its weights are saved, too, and metrics in any
                case. None within an epoch.
        """
        if not self.workers.leads:
            return
        with saving(self.folder) as new:
            if best:
                self._save_weights(new)
            if best is not None:
                new.text(records.METRICS, ''.join(json.dumps(entry) + '\n' for entry in self.metrics))
            arrays = records.as_arrays(self._parameters())
            arrays['position'] = np.array([self.epoch, self.step_in_epoch, self.steps, self.best.epoch], np.int64)
            arrays['progress'] = np.array([self.best.highest, self.loss_sum], np.float64)
            arrays |= {name: np.array(part.state(), np.float64) for name, part in self.measures.items()}
            new.tensors(records.STATE, arrays)
        if self.epoch:
            self.directory.publish()

    def _save_weights(self, new: Saving) -> None:
        """Saves the weights that are scored as those to tag with."""
        new.tensors(records.WEIGHTS, {name.removeprefix('average.'): array for name, array in
                                      records.as_arrays(self.scored.trainable_params()).items()})

    def _load_state(self) -> None:
        """Loads the state in the run directory."""
        path = self.folder / records.STATE
        arrays = records.read_tensors(path)
        parameters = self._parameters()
        shapes = {parameter.name: parameter.shape for parameter in parameters}
        measures = {name: part for name, part in self.measures.items() if name in arrays}    # of earlier versions none
        shapes |= {name: (len(part.state()),) for name, part in measures.items()}
        records.check_fit(path, arrays, {**shapes, 'position': (4,), 'progress': (2,)})
        for parameter in parameters:
            parameter.set_data(ms.Tensor(arrays[parameter.name]))
        self.epoch, self.step_in_epoch, self.steps, best_epoch = arrays['position'].tolist()
        best_score, self.loss_sum = arrays['progress'].tolist()
        for name, part in measures.items():
            part.load(arrays[name].tolist())
        if 'best' not in measures:
            self.best.load_score(best_epoch, best_score)
        if self.best.epoch:
            records.check_tensors(self.folder / records.WEIGHTS)   # which the end of the training needs
        run = SavedRun.open(self.folder)
        self.metrics = run.metrics[:self.epoch]
        if scores := run.scores:           # it had ended
            self.shifts[scores['best_epoch']] = scores.get('shift', 0.0)

    def load_best(self) -> None:
        """Loads the weights of the best epoch into the network that is scored."""
        named = {parameter.name.removeprefix('average.'): parameter for parameter in self.scored.trainable_params()}
        for parameter, weight in read_weights(SavedRun.open(self.folder), named):
            ms.ops.assign(parameter, weight)                     # in place, so that compiled graphs see it

    # Epochs

    def run(self) -> dict:
        """Trains to the end, scores the best epoch, and unlocks the directory; returns what scores.json holds."""
        try:
            return self._run()
        finally:
            self.directory.release()

    def _run(self) -> dict:
        if self.steps_an_epoch < FEW_STEPS and None in (self.options.epochs, self.options.patience):
            end = f', an end after {self.course.patience} without a better dev score' if self.course.patience else ''
            self.watcher.say(f'short epochs (steps in each: {self.steps_an_epoch}): up to {self.course.epochs} of '
                             f'them{end}')
        while tell(self.workers, self.epoch < self.course.epochs and not (
                0 < self.course.patience <= self.epoch - self.best.moved and self.best.epoch > 0)):
            self.run_epoch()
        if not self.workers.leads:
            return {}
        if self.epoch < self.course.epochs:
            self.watcher.say(f'stopped: no better dev score for {self.epoch - self.best.moved} epochs')
        self.load_best()
        shift = before = self.shifts.get(self.best.epoch, 0.0)
        if self.options.balance and not self.best.plain:
            shift = balance(self.scored, self.learner, self.corpora, self.decoder, before, self.watcher)
        scores = scores_record(self.best.epoch, self.epoch, self.corpora, self.learner, self.decoder, shift)
        if warning := self.best.nothing_learned():
            self.watcher.say(warning)
        with saving(self.folder) as new:
            if shift != before:
                self._save_weights(new)
            new.json(records.SCORES, scores)
        return scores

    def score(self, part: str) -> Score:
        """The score on 'dev' or 'test': of the average of the weights, or of the network itself if there is none."""
        return score_of(part, self.corpora, self.learner, self.decoder)

    def run_epoch(self) -> None:
        """Trains to the end of an epoch, from its beginning or from where it was stopped; then scores and saves it."""
        batches = self.learner.plan(np.random.default_rng([self.options.seed, 1 + self.epoch]))
        sentences = sum(len(indices) for _, indices, *_ in batches)      # those of which something is judged
        began = saved = time.perf_counter()
        compiling = 0.0
        self.watcher.epoch_begins(self.epoch + 1, self.course.epochs, sentences,
                                  sum(len(indices) for _, indices, *_ in batches[:self.step_in_epoch]))
        for batch in batches[self.step_in_epoch:]:
            shape, indices, *_ = batch
            step_began = time.perf_counter()
            loss, norm, stopping = self._run_step(batch, self.epoch + self.step_in_epoch / len(batches))
            finite = bool(np.isfinite([loss, norm]).all())
            if self.scaling is not None:
                self.scaling.take(finite)
            if self.scaling.exhausted() if self.scaling is not None else not finite:    # no smaller scale can help
                raise self._not_finite(loss, norm, indices)
            if shape not in self.shapes:
                self.shapes.add(shape)
                compiling += time.perf_counter() - step_began
                self.watcher.compiled('training', shape.length, shape.rows, time.perf_counter() - step_began)
            self.loss_sum += loss * len(indices) if np.isfinite(loss) else 0.0
            self.step_in_epoch += 1
            self.watcher.step(len(indices), loss)
            if stopping or (self.workers == ALONE and self.watcher.stopping()):
                self.save()
                raise Stopped
            if time.perf_counter() - saved > SAVE_SECONDS:
                self.save()
                saved = time.perf_counter()
        self._end_epoch(time.perf_counter() - began - compiling, compiling, sentences)

    def _run_step(self, batch: tuple[Any, ...], time_in_epochs: float) -> tuple[float, float, bool]:
        """Makes a step on a batch; returns the loss, the norm of the gradients, and whether some worker is to stop."""
        options, workers = self.options, self.workers
        shape, indices, *_ = batch
        arrays = share_of_batch(self.learner, batch, workers)
        rates = [options.dropout_embedding] + [options.dropout_between] * (len(self.network.widths) - 1)
        factors = dropout(options.seed, 1 + self.epoch, self.step_in_epoch, shape[:2], self.network.widths, rates,
                          options.dropout_kind == 'locked')
        own: list[float] = []
        if workers != ALONE:
            factors = [workers.own(factor) for factor in factors]
            own = [workers.share(len(indices)), float(self.watcher.stopping())]
        count, every = self.steps + 1, self.course.average_every
        scale = [] if self.scaling is None else [self.scaling.scale]
        now = np.array([self._rate(time_in_epochs), BETA1 ** count, BETA2 ** count, *scale, *own], np.float32)
        results = self.step(*map(ms.from_numpy, (now, *arrays, *factors)))
        loss, norm, *stops = (float(value.asnumpy()) for value in results)
        if np.isfinite([loss, norm]).all():                      # else it has changed nothing if the loss is scaled
            self.steps = count
            if self.average is not None and count % every == 0:
                # At first the average is that of the last tenth or so of all steps.
                times = count // every
                decay = min(options.average ** every, times / (10 + times))
                self.average(ms.Tensor(1 - decay, ms.float32))
        return loss, norm, any(stops)

    def _not_finite(self, loss: float, norm: float, indices: np.ndarray) -> NotFinite:
        """The error of a step that failed: one line about it, about the sentences in its batch, and what may help."""
        lines = [self.corpora.parts['train'][index].line for index in sorted(indices)]
        scale = '' if self.scaling is None else f' at a loss scale of {2 * self.scaling.scale:g}'
        rates = [f'{argument(name)} {rate / 4:g}' for name in ('learning_rate', 'encoder_lr')
                 if (rate := getattr(self.options, name)) > 0]
        return NotFinite(
            f'step {self.step_in_epoch + 1} of epoch {self.epoch + 1}: loss {loss:g}, norm of gradients {norm:g}{scale}'
            f'; the sentences of the batch begin at {self.options.train} lines {", ".join(map(str, lines))}; '
            f'{self.folder} holds {f"epoch {self.epoch}" if self.epoch else "no epoch yet"}; try {argument("resume")} '
            f'{self.folder} {" ".join(rates)}')

    def _end_epoch(self, seconds: float, compiling: float, sentences: int) -> None:
        """Scores and saves an epoch.

        Args:
            seconds: that its steps took, without those that compiled a graph.
            compiling: seconds of the steps that compiled a graph.
            sentences: their number in an epoch.
        """
        if not self.workers.leads:
            self.epoch, self.step_in_epoch = self.epoch + 1, 0
            return
        began = time.perf_counter()
        result = self.score('dev')
        self.epoch += 1
        mean_loss = self.loss_sum / sentences
        self.step_in_epoch, self.loss_sum = 0, 0.0
        best = self.best.take(self.epoch, result.accuracy if self.best.plain else result.spans.f1, result.accuracy,
                              mean_loss)
        record = {'epoch': self.epoch, 'loss': mean_loss, **as_record(result), 'best': best,
                  'learning_rate': self._rate(self.epoch - 0.5),           # in the middle of the epoch
                  'seconds': round(seconds, 3), 'compile_seconds': round(compiling, 3),
                  'dev_seconds': round(time.perf_counter() - began, 3)}
        self.metrics.append(record)
        self.save(best)
        self.watcher.epoch_ends(record)
