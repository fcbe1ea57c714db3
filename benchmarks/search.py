"""Searches options with the best dev scores: python benchmarks/search.py --study FILE --corpus FOLDER[,VECTORS] ...

A trial trains on FOLDER/train.tsv of each corpus, once for each seed. The value of a trial is the mean dev score of the
best epochs; test files are not read. The first trial uses the defaults (for tags of spans, and words longer than one
character). Optuna chooses the following trials with a tree-structured Parzen estimator, and stops trials that are worse
than the median of the previous trials. FILE is a database; start the program again to continue the search.

    python benchmarks/search.py --study names.db --corpus F/wnut,V --corpus F/wikigold,V --trials 60

At the end, and with --trials 0, the program prints the best trials and the importance of each option.
"""

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ms_crf.runs.options import Options, dashed  # noqa: E402
from ms_crf.training.schedules import EPOCHS, PATIENCE  # noqa: E402

import optuna  # noqa: E402

#: the values of an option: a tuple of values, or a range [least, most]; 'log' searches the logarithm
SPACE = {
    'scheme': ('BIO', 'BIOES'), 'word_rate': (0.0, 0.1, 0.3, 1.0), 'crf_rate': (1.0, 2.0, 5.0, 10.0),
    'char': ('cnn', 'lstm', 'none'), 'char_width': (26, 50, 100), 'hidden': (200, 300, 400), 'layers': (1, 2),
    'dropout_embedding': [0.1, 0.7], 'dropout_between': [0.1, 0.7], 'dropout_kind': ('locked', 'free'),
    'epochs': (24, 40, 60), 'patience': (8, 12, 16, 0),
    'unknown': (0.0, 0.1, 0.25, 0.5, 1.0), 'average': (0.0, 0.99, 0.998, 0.9995), 'batch_size': (8, 16, 32),
    'optimizer': ('adam', 'adamw', 'sgd'), 'learning_rate': [0.0005, 0.02, 'log'],
    'schedule': ('constant', 'inverse', 'cosine'), 'clip': (0.0, 1.0, 5.0), 'word_dim': (50, 100, 200),
    'bigrams': (False, True), 'ngrams': (False, True), 'balance': (False, True)}
SGD_RATE = 10                  # factor of the learning rate for SGD, because the search uses the scale of Adam


def suggested(trial, names):
    """Returns the options of a trial, without options that have no effect."""
    found = {}
    for name in names:
        choices = SPACE[name]
        if isinstance(choices, list):
            found[name] = round(trial.suggest_float(name, *choices[:2], log='log' in choices), 5)
        else:
            found[name] = trial.suggest_categorical(name, choices)
    if found.get('optimizer') == 'sgd' and 'learning_rate' in found:
        found['learning_rate'] *= SGD_RATE
    return found


def trained(corpus, seed, chosen, further, cores):
    """Trains on these cores; returns the dev score of the best epoch."""
    folder, _, vectors = corpus.partition(',')
    with tempfile.TemporaryDirectory() as save:
        options = {'train': f'{folder}/train.tsv', 'dev': f'{folder}/dev.tsv', 'test': '', 'embeddings': vectors,
                   'seed': seed, 'save': f'{save}/run', **further, **chosen}
        able = Options(**options)
        options = {name: value for name, value in options.items() if not able.idle(name)}
        file = Path(save) / 'options.json'
        file.write_text(json.dumps(options))
        done = subprocess.run([sys.executable, 'train.py', '--config', str(file)], cwd=ROOT, capture_output=True,
                              text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        if 'the loss' in done.stderr and done.returncode:        # the loss became NaN: the worst possible score
            return 0.0
        if done.returncode:
            raise SystemExit(f'{options}\n{done.stderr}')
        config = json.loads(Path(save, 'run', 'config.json').read_text())
        dev = json.loads(Path(save, 'run', 'scores.json').read_text())['dev']
        return 100 * dev['accuracy' if config['scheme'] == 'plain' else 'f1']


def objective(trial, arguments, free):
    chosen, scores, cores = suggested(trial, arguments.options), [], free.get()
    try:
        for seed in arguments.seeds:
            for corpus in arguments.corpus:
                scores.append(trained(corpus, seed, chosen, arguments.further, cores))
                trial.set_user_attr(f'{os.path.basename(corpus.partition(",")[0])}, seed {seed}', round(scores[-1], 2))
                trial.report(statistics.mean(scores), len(scores))
                if trial.should_prune():
                    raise optuna.TrialPruned
    finally:
        free.put(cores)
    return statistics.mean(scores)


def shown(study):
    """Prints the best trials and the importance of each option."""
    whole = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    print(f'\n{len(whole)} trials, and {len(study.trials) - len(whole)} that were given up\n\n'
          '| dev | trial | options | scores |\n|---|---|---|---|')
    for trial in sorted(whole, key=lambda trial: -trial.value)[:10]:
        options = ' '.join(f'--{dashed(name)} {value:g}' if isinstance(value, float) else f'--{dashed(name)} {value}'
                           for name, value in trial.params.items())
        scores = ', '.join(f'{name}: {value}' for name, value in trial.user_attrs.items())
        print(f'| {trial.value:.2f} | {trial.number} | `{options}` | {scores} |')
    if len(whole) > 9:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        for name, share in optuna.importance.get_param_importances(study, evaluator=evaluator).items():
            print(f'{share:6.1%}  --{dashed(name)}')


def main():
    warnings.simplefilter('ignore', optuna.exceptions.ExperimentalWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--study', required=True, metavar='FILE', help='database of the trials')
    parser.add_argument('--corpus', action='append', metavar='FOLDER[,VECTORS]', default=[])
    parser.add_argument('--options', nargs='+', choices=SPACE, metavar='NAME', help='options to search, of: ' +
                        ', '.join(SPACE), default=[name for name in SPACE
                                                   if name not in ('word_dim', 'bigrams', 'ngrams')])
    parser.add_argument('--further', type=json.loads, default={}, help='JSON object of options for all trainings')
    parser.add_argument('--seeds', type=int, nargs='+', default=[1])
    parser.add_argument('--trials', type=int, default=0, help='number of further trials (default: 0, which '
                        'shows the existing trials)')
    parser.add_argument('--jobs', type=int, default=1, help='trials at the same time, each on separate cores')
    arguments = parser.parse_args()
    cores, free = sorted(os.sched_getaffinity(0)), queue.Queue()
    if not 1 <= arguments.jobs <= len(cores):
        parser.error(f'--jobs must be from 1 to {len(cores)}, the number of cores, got {arguments.jobs}')
    for number in range(arguments.jobs):
        free.put(cores[number::arguments.jobs])
    arguments.corpus = [','.join(map(os.path.abspath, one.split(','))) for one in arguments.corpus]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=f'sqlite:///{os.path.abspath(arguments.study)}', study_name='options', load_if_exists=True,
        direction='maximize', sampler=optuna.samplers.TPESampler(
            multivariate=True, n_startup_trials=8, seed=1, constant_liar=arguments.jobs > 1),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=1))
    if not study.trials and arguments.trials:
        vectors = arguments.corpus[0].partition(',')[2]
        defaults = Options(embeddings=vectors, scheme='BIOES', epochs=EPOCHS, patience=PATIENCE).settled(False)
        study.enqueue_trial({name: getattr(defaults, name) for name in arguments.options})
    for trial in study.trials:                                   # repeats trials that an earlier run did not finish
        if trial.state == optuna.trial.TrialState.RUNNING:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial(trial.params)

    def said(study, trial):
        whole = {one.number: one.value for one in study.trials if one.state == optuna.trial.TrialState.COMPLETE}
        value = f'{trial.value:.2f}' if trial.number in whole else 'given up'
        print(f'{trial.number}: {value}; best {max(whole.values(), default=0):.2f}', flush=True)

    waiting = sum(trial.state == optuna.trial.TrialState.WAITING for trial in study.trials)
    # Waiting trials run one at a time, because two parallel jobs would both take the first waiting trial.
    for trials, jobs in ((min(waiting, arguments.trials), 1), (arguments.trials - waiting, arguments.jobs)):
        if trials > 0:
            study.optimize(lambda trial: objective(trial, arguments, free), n_trials=trials, n_jobs=jobs,
                           callbacks=[said])
    shown(study)


if __name__ == '__main__':
    main()
