"""What has to be as it was for a training to go on: its state, its text and its vectors."""

from ms_crf.errors import CorpusError
from ms_crf.runs import records
from ms_crf.runs.place import new_beside


def check_run(folder, watcher):
    """Raises CorpusError if a run can't go on."""
    state, weights = folder / records.STATE, folder / records.WEIGHTS
    if not state.exists() and (weights.exists() or records.read_metrics(folder)):
        left = f'{records.WEIGHTS} is there, to tag with; ' if weights.exists() else ''
        raise CorpusError(state, None, f'no such file, and a training that has epochs can not go on without it; {left}'
                                       'restore it, or train from the start with another --save')
    other = new_beside(folder)
    if (other / records.STATE).exists():
        watcher.say(f'{other} holds a training that was stopped before it could take the place of {folder}; go on with '
                    f'that by --resume {other}')


def check_input(folder, config, options, learner):
    """Raises CorpusError unless a training reads what it read when the run began.

    Args:
        folder: the run directory.
        config: what is in config.json; of earlier versions, less than today.
        options: `Options`.
        learner: a `StepLearner`.
    """
    record = {name: value for name, value in learner.record().items() if name in config}
    for name, what, path in (('text_sha256', 'sentences', options.train), ('dev_sha256', 'sentences', options.dev),
                             ('vectors_sha256', 'vectors', options.embeddings)):
        if name in record and record[name] != config[name]:
            raise CorpusError(path, None, f'these are not the {what} that {folder} began with; restore them or begin a '
                                          'new run')
    known = records.read_json(folder / records.VOCABULARY)
    if known != learner.vocabulary.to_json() or record != {name: config[name] for name in record}:
        raise CorpusError(folder, None, 'the training files or word vectors are not those that the run began with; '
                                        'restore them or begin a new run')


def keep_options(folder, options):
    """Puts the options of a resumption into config.json, so that the next one needs not name them again."""
    config = records.read_config(folder)
    before = records.read_options(folder, config).to_json()
    changed = {name: value for name, value in options.to_json().items() if value != before[name]}
    if changed:
        config['options'].update(changed)
        records.write_json(folder / records.CONFIG, config)
