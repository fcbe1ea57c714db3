"""Training in gradient steps: runs epochs, scores each epoch on dev, and saves the state for resuming.

On CPU a resumed training ends with exactly the same weights as an uninterrupted one. There is no state of a random
generator to save: the order of sentences, dropout and replaced words depend only on the seed and the position.
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
from ms_crf.training.schedules import FEW_STEPS, BestEpoch, LossScale, dropout, epoch_settings, rate_at
from ms_crf.training.scores import balance, score_of, scores_record
from ms_crf.training.step import BETA1, BETA2, Optimizer, make_average, make_step
from ms_crf.training.watchers import NotFinite, Stopped, TrainingWatcher
from ms_crf.training.workers import ALONE, Workers, broadcast, share_of_batch

import mindspore as ms
import numpy as np

SAVE_SECONDS = 300           # interval of saving within long epochs


class StepTraining:
    """A training in gradient steps: the state of a run and the loop over its epochs.

    Args:
        options: the checked options of the run.
        directory: the existing run directory; a state in it is loaded, and the training resumes from there.
        corpora: the sentences, converted to one tag scheme.
        learner: creates the networks and the batches.
        watcher: receives the events of the training.
        workers: the position of this process among the workers; only the first worker saves, scores and reports.
    """

    stoppable = True           # a stop request takes effect after the step, and the state is saved

    def __init__(self, options: Options, directory: RunDirectory, corpora: Corpora, learner: StepLearner,
                 watcher: TrainingWatcher, workers: Workers = ALONE) -> None:
        self.workers = workers
        self.options, self.directory, self.corpora, self.watcher = options, directory, corpora, watcher
        ms.set_seed(options.seed)
        self.learner = learner
        self.network = self.learner.network()
        frozen = {weight.name for part in options.frozen() for weight in self.network.parts()[part]}
        self.optimizer = Optimizer(self.network, options.optimizer, options.momentum, options.weight_decay,
                                   options.clip, options.crf_rate, options.word_rate,
                                   options.encoder_lr / options.learning_rate, frozen)
        self.scored, self.average = self.network, None
        if options.average > 0:
            self.scored = self.learner.network()
            self.scored.update_parameters_name('average.')
            for source, target in zip(self.network.trainable_params(), self.scored.trainable_params()):
                target.set_data(ms.Tensor(source.asnumpy()))
            self.average = make_average(self.network, self.scored, frozen)
        self.steps_an_epoch = self._count_steps()
        self.epoch_settings = epoch_settings(self.steps_an_epoch, options.epochs, options.patience, options.warmup,
                                             options.decay)
        self._rate = partial(rate_at, options.schedule, options.learning_rate, epochs=self.epoch_settings.epochs,
                             warmup=self.epoch_settings.warmup, decay=self.epoch_settings.decay)
        self.epoch = self.step_in_epoch = self.steps = 0
        annotated = [[tag for tag in tags if OPEN not in tag] for tags in corpora.gold['dev']]
        self.best, self.loss_sum = BestEpoch(annotated, corpora.file_scheme == PLAIN), 0.0
        self.metrics: list[dict] = []
        self.shifts: dict[int, float] = {}       # epoch of saved weights: the shift of the score of O in them
        self.scaling = LossScale() if options.precision == 'mixed' else None
        #: objects that save and load numbers, by their names in the state
        self.measures: dict[str, BestEpoch | LossScale] = {'best': self.best}
        if self.scaling is not None:
            self.measures['loss_scale'] = self.scaling
        if directory.has_state():
            self._load_state()
        elif options.init:
            self.save()                                          # resuming does not need the run of --init
        broadcast(workers)                                       # wait until all workers have loaded the state
        if self.epoch:
            self.directory.publish()
        self.shapes: set = set()
        self.step = make_step(self.network, self.optimizer, self.scaling is not None, workers != ALONE)
        self.decoder = self.learner.decoder(self.scored, partial(watcher.compiled, 'tagging'))

    def _count_steps(self) -> int:
        """Returns the number of steps of the first epoch, or a lower bound of it if that is at least FEW_STEPS."""
        annotated = [sentence for sentence in self.corpora.parts['train'] if not {*sentence.tags} <= {OPEN, NEXT}]
        least = -(-len(annotated) // self.options.batch_size)
        return least if least >= FEW_STEPS else len(self.learner.plan(np.random.default_rng([self.options.seed, 1])))

    # Saving and loading

    @property
    def folder(self) -> Path:
        """The current folder of the run: with `overwrite` a temporary folder until the earlier run is replaced."""
        return self.directory.folder

    def _parameters(self) -> list:
        """Returns all Parameters that the state contains."""
        average = self.scored.trainable_params() if self.scored is not self.network else []
        return [*self.network.trainable_params(), *self.optimizer.state(), *average]

    def save(self, best: bool | None = None) -> None:
        """Saves the state of the training.

        Args:
            best: None within an epoch. After an epoch, whether it is the best so far. The metrics are then saved, too,
                and the weights if the epoch is the best.
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
        """Saves the weights of the scored network as the weights of the tagger."""
        new.tensors(records.WEIGHTS, {name.removeprefix('average.'): array for name, array in
                                      records.as_arrays(self.scored.trainable_params()).items()})

    def _load_state(self) -> None:
        """Loads the state from the run directory."""
        path = self.folder / records.STATE
        arrays = records.read_tensors(path)
        parameters = self._parameters()
        shapes = {parameter.name: parameter.shape for parameter in parameters}
        measures = {name: part for name, part in self.measures.items() if name in arrays}    # not in earlier versions
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
            records.check_tensors(self.folder / records.WEIGHTS)   # needed at the end of the training
        run = SavedRun.open(self.folder)
        self.metrics = run.metrics[:self.epoch]
        if scores := run.scores:           # the training had ended
            self.shifts[scores['best_epoch']] = scores.get('shift', 0.0)

    def load_best(self) -> None:
        """Loads the weights of the best epoch into the network that is scored."""
        named = {parameter.name.removeprefix('average.'): parameter for parameter in self.scored.trainable_params()}
        for parameter, weight in read_weights(SavedRun.open(self.folder), named):
            ms.ops.assign(parameter, weight)                     # in place, so that compiled graphs see it

    # Epochs

    def run(self) -> dict:
        """Trains to the end, scores the best epoch and unlocks the directory; returns the content of scores.json."""
        try:
            return self._run()
        finally:
            self.directory.release()

    def _run(self) -> dict:
        if self.steps_an_epoch < FEW_STEPS and None in (self.options.epochs, self.options.patience):
            settings = self.epoch_settings
            end = f', early stopping after {settings.patience} without a better dev score' if settings.patience else ''
            self.watcher.say(f'short epochs of {self.steps_an_epoch} steps: training for up to {settings.epochs} '
                             f'epochs{end}')
        while broadcast(self.workers, self.epoch < self.epoch_settings.epochs and not (
                0 < self.epoch_settings.patience <= self.epoch - self.best.last_progress and self.best.epoch > 0)):
            self.run_epoch()
        if not self.workers.leads:
            return {}
        if self.epoch < self.epoch_settings.epochs:
            self.watcher.say(f'early stopping: no better dev score for {self.epoch - self.best.last_progress} epochs')
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
        """Returns the score on 'dev' or 'test' of the averaged weights, or of the network without averaging."""
        return score_of(part, self.corpora, self.learner, self.decoder)

    def run_epoch(self) -> None:
        """Trains to the end of the current epoch, also if it was resumed in the middle; then scores and saves it."""
        batches = self.learner.plan(np.random.default_rng([self.options.seed, 1 + self.epoch]))
        sentences = sum(len(indices) for _, indices, *_ in batches)      # unlabelled sentences are not in batches
        started = saved = time.perf_counter()
        compiling = 0.0
        self.watcher.epoch_begins(self.epoch + 1, self.epoch_settings.epochs, sentences,
                                  sum(len(indices) for _, indices, *_ in batches[:self.step_in_epoch]))
        for batch in batches[self.step_in_epoch:]:
            shape, indices, *_ = batch
            step_started = time.perf_counter()
            loss, norm, stopping = self._run_step(batch, self.epoch + self.step_in_epoch / len(batches))
            finite = bool(np.isfinite([loss, norm]).all())
            if self.scaling is not None:
                self.scaling.take(finite)
            if self.scaling.exhausted() if self.scaling is not None else not finite:    # no smaller scale is left
                raise self._not_finite(loss, norm, indices)
            if shape not in self.shapes:
                self.shapes.add(shape)
                compiling += time.perf_counter() - step_started
                self.watcher.compiled('training', shape.length, shape.rows, time.perf_counter() - step_started)
            self.loss_sum += loss * len(indices) if np.isfinite(loss) else 0.0
            self.step_in_epoch += 1
            self.watcher.step(len(indices), loss)
            if stopping or (self.workers == ALONE and self.watcher.stopping()):
                self.save()
                raise Stopped
            if time.perf_counter() - saved > SAVE_SECONDS:
                self.save()
                saved = time.perf_counter()
        self._end_epoch(time.perf_counter() - started - compiling, compiling, sentences)

    def _run_step(self, batch: tuple[Any, ...], time_in_epochs: float) -> tuple[float, float, bool]:
        """Trains on one batch.

        Args:
            batch: shape, indices and further arguments of `learner.batch`.
            time_in_epochs: the position in the training, for the learning rate.

        Returns:
            The loss, the norm of the gradients, and whether a worker has received a stop request.
        """
        options, workers = self.options, self.workers
        shape, indices, *_ = batch
        arrays = share_of_batch(self.learner, batch, workers)
        rates = [options.dropout_embedding] + [options.dropout_between] * (len(self.network.widths) - 1)
        factors = dropout(options.seed, 1 + self.epoch, self.step_in_epoch, shape[:2], self.network.widths, rates,
                          options.dropout_kind == 'locked')
        by_worker: list[float] = []
        if workers != ALONE:
            factors = [workers.rows_of_array(factor) for factor in factors]
            by_worker = [workers.share(len(indices)), float(self.watcher.stopping())]
        count, every = self.steps + 1, self.epoch_settings.average_every
        scale = [] if self.scaling is None else [self.scaling.scale]
        now = np.array([self._rate(time_in_epochs), BETA1 ** count, BETA2 ** count, *scale, *by_worker], np.float32)
        results = self.step(*map(ms.from_numpy, (now, *arrays, *factors)))
        loss, norm, *stops = (float(value.asnumpy()) for value in results)
        if np.isfinite([loss, norm]).all():                      # otherwise a step with a scaled loss changes no weight
            self.steps = count
            if self.average is not None and count % every == 0:
                # At first the average covers about the last tenth of all steps.
                times = count // every
                decay = min(options.average ** every, times / (10 + times))
                self.average(ms.Tensor(1 - decay, ms.float32))
        return loss, norm, any(stops)

    def _not_finite(self, loss: float, norm: float, indices: np.ndarray) -> NotFinite:
        """Returns the error of a step whose loss is not finite: position, lines of the batch, and a suggestion."""
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
            seconds: duration of the steps that did not compile a graph.
            compiling: duration of the steps that compiled a graph.
            sentences: number of sentences of the epoch.
        """
        if not self.workers.leads:
            self.epoch, self.step_in_epoch = self.epoch + 1, 0
            return
        started = time.perf_counter()
        result = self.score('dev')
        self.epoch += 1
        mean_loss = self.loss_sum / sentences
        self.step_in_epoch, self.loss_sum = 0, 0.0
        best = self.best.take(self.epoch, result.accuracy if self.best.plain else result.spans.f1, result.accuracy,
                              mean_loss)
        record = {'epoch': self.epoch, 'loss': mean_loss, **as_record(result), 'best': best,
                  'learning_rate': self._rate(self.epoch - 0.5),           # in the middle of the epoch
                  'seconds': round(seconds, 3), 'compile_seconds': round(compiling, 3),
                  'dev_seconds': round(time.perf_counter() - started, 3)}
        self.metrics.append(record)
        self.save(best)
        self.watcher.epoch_ends(record)
