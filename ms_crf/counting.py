"""A hidden Markov model from files to a run directory: counted, scored and saved."""

import json
import time
from pathlib import Path

from ms_crf import run_folder
from ms_crf.corpora import load, score_in
from ms_crf.hmm import HMM
from ms_crf.scoring import as_record, table
from ms_crf.tagger import Tagger


def run(options, watcher, overwrite=False):
    """Makes the run; returns what scores.json holds.

    Args:
        options: `Options` of `--model hmm`, checked.
        watcher: is told what happens; see `Watcher` of the command.
        overwrite: whether a run may be there already.
    """
    run_folder.check_place(options.save, overwrite)
    corpora = load({part: path for part in ('train', 'dev', 'test') if (path := getattr(options, part))},
                   options.scheme, options.column_pair())
    watcher.corpora(corpora)
    began = time.perf_counter()
    train = corpora.parts['train']
    model = HMM().fit([sentence.tokens for sentence in train], [sentence.tags for sentence in train], options.add,
                      corpora.tags)
    seconds = time.perf_counter() - began
    config = {'format': run_folder.FORMAT, 'model': 'hmm', 'options': options.to_json(),
              'scheme': corpora.scheme, 'found_scheme': corpora.found}
    run_folder.create(options.save, config, run_folder.hmm_vocabulary(model), overwrite)
    run_folder.write_hmm(options.save, model)
    tagger = Tagger.load(options.save)
    scores = {'best_epoch': 0, 'epochs': 0}
    for part in ('dev', 'test'):
        if part in corpora.parts:
            found = tagger.tag([sentence.tokens for sentence in corpora.parts[part]], confidence=False)
            result = score_in(corpora.found, corpora.gold[part], [tagged.tags for tagged in found],
                              corpora.scheme)
            scores[part] = {**as_record(result), 'table': table(result)}
    folder = Path(options.save)
    run_folder.write_text(folder / run_folder.METRICS, json.dumps(
        {'epoch': 0, **{name: value for name, value in scores['dev'].items() if name != 'table'},
         'seconds': round(seconds, 3)}) + '\n')
    run_folder.write_json(folder / run_folder.SCORES, scores)
    return scores
