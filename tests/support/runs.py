"""Run directories with random weights, and enumeration of all paths of sentences for such a run."""

from ms_crf.models.words.batches import EncodedWords
from ms_crf.models.words.network import build_network
from ms_crf.models.words.vocabulary import Vocabulary
from ms_crf.runs import records
from ms_crf.runs.options import Options
from ms_crf.runs.records import saving
from ms_crf.runs.run import SavedRun
from ms_crf.text.schemes import allowed_transitions

import mindspore as ms
import numpy as np

from support.oracle import Row

TAGS = {'BIO': ['O', 'B-X', 'I-X', 'B-Y', 'I-Y'], 'BIOES': ['O', 'B-X', 'I-X', 'E-X', 'S-X'],
        'BMES': ['B', 'M', 'E', 'S'], 'plain': ['NOUN', 'VERB', 'ADJ']}
WORDS = 'to in at on by Xan Yel abracadabra'.split()
SENTENCES = [['to', 'Xan', 'in', 'Yel'], [], ['unknown'], ['in', 'Abracadabra', 'at', 'on', 'Zoe'], ['by', 'to']]


def write_tensors(path, arrays):
    """Replaces a tensor file of a run. A dict of arrays is written as a training writes it."""
    with saving(path.parent) as new:
        new.tensors(path.name, arrays)


def make_run(folder, scheme='BIO', **options):
    """Creates a run directory with random weights, which are large enough to predict different tags."""
    options = Options(**{'save': str(folder), 'word_dim': 6, 'hidden': 6, 'char_dim': 3, 'char_width': 4, **options})
    options = options.settled(False)
    letters = sorted(set(''.join(WORDS)))
    bigrams = [f'{one} {other}' for one in WORDS for other in WORDS] if options.bigrams else []
    ngrams = ['<ab', 'unk', 'know', 'nown>', 'anad', 'zo', 'zoe', '<xan', 'new', '中'] if options.ngrams else []
    vocabulary = Vocabulary(WORDS, letters, TAGS[scheme], options.char_length, bigrams, ngrams)
    config = {'format': 1, 'model': 'bilstm', 'options': options.to_json(), 'word_dim': 6, 'scheme': scheme,
              'found_scheme': scheme}
    records.create(folder, config, vocabulary.to_json())
    network = build_network(options, vocabulary, 6, scheme)
    generator = np.random.default_rng(len(scheme))
    weights = {parameter.name: generator.normal(size=parameter.shape).astype(np.float32)
               for parameter in network.trainable_params()}
    write_tensors(folder / records.WEIGHTS, weights)
    if ngrams:
        table = np.concatenate((np.zeros((1, 6)), generator.normal(0, 3, (len(ngrams), 6)))).astype(np.float32)
        write_tensors(folder / records.NGRAMS, {'ngram_table': table})
    return folder


def rows_of(run, scheme, temperature=1.0):
    """For each of SENTENCES an `oracle.Row` with all paths, or None if it is empty.

    The emissions are computed by the network in PyNative mode.
    """
    options = SavedRun.open(run).options
    vocabulary = SavedRun.open(run).vocabulary(Vocabulary)
    network = build_network(options, vocabulary, 6, scheme)
    for parameter in network.trainable_params():
        parameter.set_data(ms.Tensor(records.read_tensors(run / records.WEIGHTS)[parameter.name]))
    scores = {'transitions': np.zeros((len(TAGS[scheme]),) * 2), 'start': np.zeros(len(TAGS[scheme])),
              'end': np.zeros(len(TAGS[scheme]))}
    allowed = None
    if options.head == 'crf':
        crf = network.head
        scores = {'transitions': crf.transitions.asnumpy().astype(float), 'end': crf.end_transitions.asnumpy(),
                  'start': crf.start_transitions.asnumpy()}
        if options.constraints and scheme != 'plain':
            constraints = allowed_transitions(scheme, TAGS[scheme])
            allowed = constraints.transitions, constraints.start, constraints.end
    for tokens in SENTENCES:
        if not tokens:
            yield None
            continue
        encoded = EncodedWords([tokens], vocabulary)
        forms, places = np.unique(encoded.tokens[0], return_inverse=True)
        of_forms, _ = encoded.arrays(forms, len(forms))
        indices = np.arange(of_forms.size).reshape(of_forms.shape)
        ids = [of_forms.reshape(-1), np.concatenate((indices, indices[:1])), encoded.spelling_of[forms],
               encoded.spelling_of[forms[:1]], places[:, None], [len(tokens)]]
        words, *others = (ms.Tensor(np.asarray(array, np.int32)) for array in ids)
        rows, columns = network.rows(words).asnumpy().copy(), vocabulary.columns
        if vocabulary.ngrams:
            for form, place in zip(forms, range(0, len(rows), columns)):
                made = made_of_ngrams(distinct_in(tokens, columns)[form], vocabulary.ngrams,
                                      records.read_tensors(run / records.NGRAMS)['ngram_table'])
                rows[place] = rows[place] if made is None else made
        emissions = network.emissions(ms.Tensor(rows), *others)[:, 0]
        yield Row(emissions.asnumpy() / temperature, {name: table / temperature for name, table in scores.items()},
                  allowed)


def distinct_in(tokens, columns):
    """The words of the distinct forms of a sentence, in order of first occurrence.

    With more than one column (with bigrams) a form is a word with both of its neighbours.
    """
    around = list(zip(tokens, ['', *tokens], [*tokens[1:], '']))
    return [word for word, *_ in dict.fromkeys(around if columns > 1 else ((word,) for word in tokens))]


def made_of_ngrams(word, ngrams, table):
    """The vector of an out-of-vocabulary word by its n-grams; None if the word is known or has no known n-grams."""
    if word in WORDS or word.lower() in WORDS:
        return None
    marked = f'<{word.lower()}>'
    parts = {marked[start:start + size] for start in range(len(marked)) for size in (3, 4, 5)}
    rows = [table[1 + number] for number, ngram in enumerate(ngrams) if ngram in parts]
    return sum(rows) / len(rows) ** 0.5 if rows else None
