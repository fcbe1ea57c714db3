"""The command line that compares models on the same files: python -m ms_crf.compare --help"""

import sys

from ms_crf import console

if __name__ == '__main__':       # before anything that takes long to import: from here on Ctrl-C is one line
    sys.exit(console.enter('ms_crf.compare'))

import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from ms_crf.arguments import Parser
from ms_crf.corpora import gold_in, score_in
from ms_crf.corpus import read_corpus
from ms_crf.errors import CorpusError, OptionError
from ms_crf.run_folder import write_text
from ms_crf.spans import PLAIN, spans_of, strict_spans_of
from ms_crf.train_command import options_of

MODELS = {'hmm': ['--model', 'hmm'], 'softmax': ['--head', 'softmax'], 'crf': ['--head', 'crf']}
COLUMNS = ('precision', 'recall', 'f1', 'accuracy', 'ill_formed', 'train_seconds', 'sentences_per_second')
HEADS = ('P', 'R', 'F1', 'accuracy', 'ill-formed spans', 'training s', 'sentences/s')


def parser():
    made = Parser(prog='ms_crf.compare',
                  description='Trains several models on the same files and prints a table of what they are worth on '
                              'test. All other options are those of train.py, for the models that have them.')
    for part in ('train', 'dev', 'test'):
        made.add_argument(f'--{part}', required=True, metavar='FILE', help='as of train.py')
    made.add_argument('--models', default='hmm,softmax,crf', help='some of hmm, softmax, crf (default: %(default)s)')
    made.add_argument('--seeds', type=int, default=3, help='runs of each model that has chance in it (default: 3)')
    made.add_argument('--columns', default='0,-1', help='as of train.py (default: %(default)s)')
    made.add_argument('--scheme', default='auto', help='as of train.py (default: %(default)s)')
    made.add_argument('--json', metavar='FILE', help='write all figures of all runs there')
    made.add_argument('--keep', metavar='DIR', help='keep the run directories there')
    return made


def _train(arguments, folder):
    """Trains in a process of its own, which shows its progress on standard error; seconds."""
    began = time.perf_counter()
    program = 'import sys; from ms_crf.train_command import main; sys.exit(main())'
    status = subprocess.run([sys.executable, '-c', program, *arguments, '--save', folder], stdout=sys.stderr).returncode
    if status == 130:
        raise KeyboardInterrupt
    if status:
        raise OptionError('training failed, see above')
    return time.perf_counter() - began


def measure(folder, path, columns):
    """What a run is worth on a tagged file: precision, recall, f1, accuracy, ill_formed, sentences_per_second."""
    from ms_crf.tagger import Tagger
    tagger = Tagger.load(folder)
    sentences = read_corpus(path, columns)
    tokens = [sentence.tokens for sentence in sentences]
    tagger.tag(tokens, confidence=False)                         # compiles
    began = time.perf_counter()
    found = [tagged.tags for tagged in tagger.tag(tokens, confidence=False)]
    seconds = time.perf_counter() - began
    scheme = tagger.found_scheme
    gold = [gold_in(scheme, sentence.tags, path, sentence.line, tagger.scheme) for sentence in sentences]
    result = score_in(scheme, gold, found, tagger.scheme)
    return {'precision': result.spans.precision, 'recall': result.spans.recall, 'f1': result.spans.f1,
            'accuracy': result.accuracy, 'ill_formed': ill_formed(found, tagger.scheme),
            'sentences_per_second': len(tokens) / seconds}


def ill_formed(tags, scheme):
    """Share of the spans, read by the rules of conlleval, that their scheme does not allow."""
    if scheme == PLAIN:
        return 0.0
    spans = sum(len(spans_of(row)) for row in tags)
    fit = sum(len(set(spans_of(row)) & set(strict_spans_of(row, scheme))) for row in tags)
    return 1 - fit / spans if spans else 0.0


def table(results):
    """Lines of Markdown: a row a model, mean ± standard deviation where there are several runs."""
    lines = [f'| model | runs | {" | ".join(HEADS)} |', '|---' * (2 + len(HEADS)) + '|']
    for name, runs in results.items():
        cells = []
        for column in COLUMNS:
            values = [run[column] for run in runs]
            if column == 'sentences_per_second':
                cells.append(f'{statistics.median(values):,.0f}')
            elif column == 'train_seconds':
                cells.append(f'{statistics.median(values):.1f}')
            else:
                spread = f' ± {100 * statistics.stdev(values):.2f}' if len(values) > 1 else ''
                cells.append(f'{100 * statistics.mean(values):.2f}{spread}')
        lines.append(f'| {name} | {len(runs)} | {" | ".join(cells)} |')
    return lines


def _compare(parsed, others, folder):
    results = {}
    for name in parsed.models:
        results[name] = []
        for seed in range(1, 1 + (1 if name == 'hmm' else parsed.seeds)):
            print(f'{name}, seed {seed} of {parsed.seeds}' if name != 'hmm' else name, file=sys.stderr, flush=True)
            run = str(folder / f'{name}-{seed}')
            own = [] if name == 'hmm' else ['--seed', str(seed), *others]
            seconds = _train([*MODELS[name], *_files(parsed), *own], run)
            results[name].append({'seed': seed, **measure(run, parsed.test, parsed.column_pair),
                                  'train_seconds': seconds})
    return results


def _files(parsed):
    return [f'--{name}={getattr(parsed, name)}' for name in ('train', 'dev', 'test', 'columns', 'scheme')]


def main(arguments=None):
    """Runs the command; returns its exit status."""
    return console.run('ms_crf.compare', lambda: _main(sys.argv[1:] if arguments is None else arguments))


def _main(arguments):
    parsed, others = parser().parse_known_args(arguments)
    parsed.models = parsed.models.split(',')
    odd = next((name for name in parsed.models if name not in MODELS), None)
    if odd is not None:
        raise OptionError(f'--models must be some of {", ".join(MODELS)}, got {odd!r}')
    if parsed.seeds < 1:
        raise OptionError(f'--seeds must be at least 1, got {parsed.seeds}')
    for name in ('--seed', '--save', '--head', '--model', '--overwrite', '--resume'):
        if any(text.split('=')[0] == name for text in others):
            raise OptionError(f'{name} is chosen by the comparison itself; leave it away')
    # All options of the trainings, before the first of them begins.
    for name in parsed.models:
        options = options_of([*MODELS[name], *_files(parsed), *([] if name == 'hmm' else others)])
    parsed.column_pair = options.column_pair()
    for place in (parsed.json, parsed.keep):
        if place and not Path(place).absolute().parent.is_dir():
            raise CorpusError(place, None, 'can not be written: there is no folder of that name')
    with tempfile.TemporaryDirectory() as temporary:
        results = _compare(parsed, others, Path(parsed.keep or temporary))
    if parsed.json:
        write_text(Path(parsed.json), json.dumps(results, indent=1) + '\n')
    for line in table(results):
        print(line)
    return 0
