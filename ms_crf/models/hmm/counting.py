"""A hidden Markov model from files to a run directory: counted, scored and saved."""

import contextlib
import json
import time

from ms_crf.files import temporary
from ms_crf.models.hmm.hmm import HMM
from ms_crf.runs import records
from ms_crf.runs.place import Place
from ms_crf.runs.saving import saving
from ms_crf.tagger import Tagger
from ms_crf.text.dataset import load, score_in
from ms_crf.text.metrics import as_record, table


def run(options, watcher, overwrite=False):
    """Makes the run; returns what scores.json holds.

    Args:
        options: `Options` of `--model hmm`, checked.
        watcher: is told what happens; see `Watcher` of the command.
        overwrite: whether a run may be there already.
    """
    with contextlib.ExitStack() as end:
        place = Place(options.save, overwrite)
        end.callback(place.release)
        return _run(options, watcher, place, end)


def _run(options, watcher, place, end):
    corpora = load({part: path for part in ('train', 'dev', 'test') if (path := getattr(options, part))},
                   options.scheme, options.column_pair())
    watcher.corpora(corpora)
    began = time.perf_counter()
    train = corpora.parts['train']
    model = HMM().fit([sentence.tokens for sentence in train], [sentence.tags for sentence in train], options.add,
                      corpora.tags)
    seconds = time.perf_counter() - began
    config = {'format': records.FORMAT, 'model': 'hmm', 'options': options.to_json(),
              'scheme': corpora.scheme, 'found_scheme': corpora.found}
    folder = place.create(config, records.hmm_vocabulary(model))
    if place.former is not None:
        end.enter_context(temporary(folder))     # if it does not take the place of the other
    records.write_hmm(folder, model)
    tagger = Tagger.load(folder)
    scores = {'best_epoch': 0, 'epochs': 0}
    for part in ('dev', 'test'):
        if part in corpora.parts:
            found = tagger.tag([sentence.tokens for sentence in corpora.parts[part]], confidence=False)
            result = score_in(corpora.found, corpora.gold[part], [tagged.tags for tagged in found],
                              corpora.scheme)
            scores[part] = {**as_record(result), 'table': table(result)}
    metrics = {'epoch': 0, **{name: value for name, value in scores['dev'].items() if name != 'table'},
               'seconds': round(seconds, 3)}
    with saving(folder) as new:
        new.text(records.METRICS, json.dumps(metrics) + '\n')
        new.json(records.SCORES, scores)
    place.take()
    return scores
