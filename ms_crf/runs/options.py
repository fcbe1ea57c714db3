"""The options of a training: names, defaults and what they may be, for the command line as for a file."""

import os
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ms_crf.base import arguments
from ms_crf.base.arguments import DIR, FILE, UNLESS_0, Arguments, check_value, whole_numbers
from ms_crf.base.errors import OptionError, argument, brief, meant
from ms_crf.base.files import sample
from ms_crf.formats.registry import without_columns
from ms_crf.runs import model_types
from ms_crf.text.partial import MARK
from ms_crf.text.splitting import AUTO, CHOICES, DEFAULT, check_name

WIDEST = 65_536                # of vectors and layers; what a machine has room for is far less


def option(default: Any, group: str, text: str, metavar: str | None = None, **others: Any) -> Any:
    """A field of `Options`, see `ms_crf.base.arguments.option`. Except in the group 'Files' its effect depends on the
    model type, see `ms_crf.runs.model_types`."""
    return arguments.option(default, group, text, metavar, **{
        'by_type': group != 'Files', 'negatable': True, 'recorded': True, **others})


_OF_WORDS, _OF_ENCODERS, _OF_LAYERS = {'encoder': False}, {'encoder': True}, {'encoder_lstm': UNLESS_0}
_OF_CHARACTERS = {'char': ('cnn', 'lstm')}


@dataclass
class Options(Arguments):
    """What `train` takes, and config.json keeps."""

    train: str = option(sample('train'), 'Files', 'tagged sentences to learn from: columns, JSON (.jsonl, .json), '
                        'brat; see the topic "Formats" in the documentation (default: the sample corpus)', FILE)
    dev: str = option(sample('dev'), 'Files', 'tagged sentences to choose the best epoch by (default: those of the '
                      'sample corpus)', FILE)
    test: str = option(sample('test'), 'Files', 'tagged sentences to score the best epoch on (default: those of the '
                       f'sample corpus; with {argument("train")} none)', FILE, may_be_empty=True)
    columns: str = option('0,-1', 'Files', 'column of the token and of the tag, from 0, or from -1 backwards; 0,-1 '
                          'means 1,3 in .conllu', 'TOKEN,TAG')
    splitter: str = option(AUTO, 'Files', 'how raw text is cut into sentences and tokens, in tagging as in training: '
                           f'{CHOICES}; auto is {DEFAULT}, or by characters if the training text is', 'NAME')
    unknown_tag: str = option(MARK, 'Files', 'what stands in place of the tag of a token that nobody has judged, or of '
                              'its type or border alone; \'\' for nothing', 'TAG')
    allow_any_tags: bool = option(False, 'Files', 'learn from a file even if what it has for tags can hardly be tags, '
                                  'such as prose, or more different values than tokens')
    scheme: str = option('auto', 'Files', 'tag scheme to train in, and of the tags that come out; auto is that of the '
                         'files, BIO for IOB1, and a constrained CRF learns BIO as BIOES',
                         choices=('auto', 'BIO', 'BIOES', 'BMES'))
    save: str = option('runs/sample', 'Files', 'run directory to make', DIR)

    model: str = option(model_types.DEFAULT, 'Model', model_types.HELP, choices=model_types.MODELS, by_type=False)
    add: float = option(0.1, 'Model', 'of hmm: added to every count', 'COUNT', least=1e-9, most=1e6)
    embeddings: str = option('', 'Model', 'word vectors, word2vec or GloVe text, .gz too; random ones without', FILE,
                             needs=_OF_WORDS)
    word_dim: int = option(100, 'Model', f'width of a word vector; {argument("embeddings")} brings its own', 'N',
                           least=1, most=WIDEST, needs={**_OF_WORDS, 'embeddings': False})
    # Without values of their own: see `settled`.
    char: str = option(None, 'Model', 'how a word\'s characters are read (default: none if most words are single '
                       'characters, else cnn)', choices=('cnn', 'lstm', 'none'), needs=_OF_WORDS)
    bigrams: bool = option(None, 'Model', 'learn vectors of pairs of neighbouring words, too (default: if most words '
                           'are single characters)', needs=_OF_WORDS)
    ngrams: bool = option(None, 'Model', f'make vectors of n-grams of characters for words that '
                          f'{argument("embeddings")} lacks, in tagging as in training (default: with '
                          f'{argument("embeddings")}, unless most words are single characters)',
                          needs={**_OF_WORDS, 'embeddings': True})
    char_dim: int = option(30, 'Model', 'width of a character vector', 'N', least=1, most=WIDEST, needs=_OF_CHARACTERS)
    char_width: int = option(50, 'Model', 'width of what a word\'s characters become; even', 'N', least=2, most=WIDEST,
                             needs=_OF_CHARACTERS)
    char_length: int = option(16, 'Model', 'characters that are read; of a longer word the first and the last half',
                              'N', least=2, most=1000, needs=_OF_CHARACTERS)
    hidden: int = option(200, 'Model', 'width of a BiLSTM layer, half for each direction; even', 'N', least=2,
                         most=WIDEST, needs=_OF_WORDS)
    layers: int = option(1, 'Model', 'number of BiLSTM layers', 'N', least=1, most=100, needs=_OF_LAYERS)
    encoder: str = option('', 'Encoder', 'folder of a pretrained BERT or RoBERTa model, whose vectors take the place '
                          'of word vectors and characters', DIR)
    encoder_lr: float = option(0.0, 'Encoder', 'learning rate of the encoder; 0 keeps it as it is', 'RATE', least=0,
                               most=100, needs=_OF_ENCODERS)
    encoder_lstm: int = option(400, 'Encoder', 'width of a BiLSTM layer over subwords, half for each '
                               'direction; even; 0 for none', 'N', least=0, most=WIDEST, needs=_OF_ENCODERS)
    encoder_cache: str = option('', 'Encoder', 'folder to keep a frozen encoder\'s vectors in, for this run and '
                                'others; memory without', DIR, needs=_OF_ENCODERS)
    encoder_link: bool = option(False, 'Encoder', 'let the run name the folder of the encoder and its checksum, not '
                                'hold a copy', needs=_OF_ENCODERS)

    head: str = option('crf', 'Model', 'how tags are chosen', choices=('crf', 'softmax'))
    constraints: bool = option(True, 'Model', 'forbid what the tag scheme forbids; of crf', needs={'head': ('crf',)})
    init: str = option('', 'Model', 'run to begin with: its words, characters and weights, and those of its tags that '
                       'are here as well; the options that shape the network are its own', DIR)
    freeze: str = option('', 'Model', f'parts that stay as they are in the run of {argument("init")}: words, '
                         'characters, lstm, separated by commas', 'PARTS', needs={'init': True})

    dropout_embedding: float = option(0.4, 'Against overfitting', 'share of the input that is dropped', 'SHARE',
                                      least=0, most=0.95)
    dropout_between: float = option(0.4, 'Against overfitting', 'share of each layer\'s output that is dropped',
                                    'SHARE', least=0, most=0.95, needs=_OF_LAYERS)
    dropout_kind: str = option('locked', 'Against overfitting', 'locked: a sentence loses the same at each of its '
                               'words; free: each word its own', choices=('locked', 'free'),
                               needs={('dropout_embedding', 'dropout_between'): True})
    unknown: float = option(0.25, 'Against overfitting',
                            'Z: a word that occurs n times becomes the unknown word with probability Z / (Z + n)', 'Z',
                            least=0, most=1e9, needs=_OF_WORDS)
    weight_decay: float = option(0.0, 'Against overfitting', 'of adamw and sgd', 'RATE', least=0, most=100,
                                 needs={'optimizer': ('adamw', 'sgd')})
    average: float = option(0.9995, 'Against overfitting', 'decay of the running average of the weights that is scored '
                            'and saved; 0 for none', 'SHARE', least=0, most=0.99999)

    # Without a value of their own: see `course_of`.
    epochs: int = option(None, 'Training', 'times through the training sentences (default: 40, or as many as 1,000 '
                         'steps take)', 'N', least=1, most=1_000_000)
    patience: int = option(None, 'Training', 'epochs without a better dev score before it stops; 0 for all epochs '
                           '(default: 12, or as many as 300 steps take)', 'N', least=0, most=1_000_000)
    batch_size: int = option(16, 'Training', 'sentences of a step', 'N', least=1, most=100_000)
    optimizer: str = option('adam', 'Training', 'kind of update', choices=('adam', 'adamw', 'sgd'))
    learning_rate: float = option(0.004, 'Training', 'at its highest', 'RATE', least=1e-12, most=100)
    momentum: float = option(0.9, 'Training', 'of sgd', 'SHARE', least=0, most=0.9999, needs={'optimizer': ('sgd',)})
    schedule: str = option('cosine', 'Training', 'how the learning rate falls',
                           choices=('constant', 'inverse', 'cosine'))
    decay: float = option(None, 'Training', 'D of inverse: rate / (1 + D * epochs done) (default: 0.03, or as much '
                          'less as there are more epochs)', 'D', least=0, most=1e6, needs={'schedule': ('inverse',)})
    warmup: float = option(None, 'Training', 'epochs over which the rate rises at first; of cosine (default: 0.5, or '
                           'as many as 12.5 steps take)', 'EPOCHS', least=0, most=1e6, needs={'schedule': ('cosine',)})
    crf_rate: float = option(2.0, 'Training', 'multiplies the learning rate of the CRF\'s own weights', 'FACTOR',
                             least=0, most=1e6, needs={'head': ('crf',)})
    word_rate: float = option(None, 'Training', 'multiplies that of the word vectors; 0 keeps them as they are '
                              f'(default: 0.3 with {argument("embeddings")}, else 1)', 'FACTOR', least=0, most=1e6,
                             needs=_OF_WORDS)
    clip: float = option(5.0, 'Training', 'norm that gradients are cut down to; 0 for no limit', 'NORM', least=0,
                         most=1e9)
    balance: bool = option(True, 'Training', 'when the training is done, shift the score of O by what F1 on dev is '
                           'best with')
    precision: str = option('float32', 'Training', 'mixed: 16 bits in the LSTMs and characters; not on CPU',
                            choices=('float32', 'mixed'))
    seed: int = option(1, 'Training', 'of everything that is random', 'N', least=0, most=2 ** 31 - 1)

    def reasons(self) -> Mapping[str, str | None]:
        """Why options have no effect beside the others."""
        named = filter(None, (self.train, self.dev, self.test))
        without = [without_columns(path) for path in named]
        return {'columns': without[0] if without and all(without) else None,
                'word_rate': f'with {argument("freeze")} words' if 'words' in self.frozen() else None}

    def _needs(self, name: str) -> Mapping[Any, Any]:
        needs = super()._needs(name)
        return model_types.needs_of(name, self.model, needs) if _ENTRIES[name].metadata['by_type'] else needs

    def check(self) -> None:
        """Raises OptionError at the first value that can't be."""
        super().check()
        for name in ('hidden', 'char_width', 'encoder_lstm'):
            if getattr(self, name) % 2:
                raise OptionError(f'{argument(name)} must be even, half for each direction, got {getattr(self, name)}')
        if self.splitter != AUTO:
            check_name(self.splitter, argument('splitter'))
        self.column_pair()
        if self.encoder_lr > 0 and self.encoder_cache:
            raise OptionError(f'{argument("encoder_cache")} is for a frozen encoder; leave it or '
                              f'{argument("encoder_lr")} away')
        for name in ('encoder', 'encoder_cache'):
            path = getattr(self, name)
            if path and _lies_in(path, self.save):
                raise OptionError(f'{argument(name)} must not lie within {argument("save")}, got {path}; copy or name '
                                  'it elsewhere')

    def settled(self, of_characters: bool) -> 'Options':
        """These with a value for each option whose default follows from the text and the files.

        Args:
            of_characters: whether most words of the training text are single characters, as in Chinese.
        """
        return self.settled_as(replace(
            self, char='none' if of_characters else 'cnn', bigrams=of_characters,
            ngrams=bool(self.embeddings) and not of_characters, word_rate=0.3 if self.embeddings else 1.0))

    def settled_as(self, other: 'Options') -> 'Options':
        """These with the values of another one, which is settled, for those options that follow from the text."""
        return replace(self, **{name: getattr(other, name) for name in ('char', 'bigrams', 'ngrams', 'word_rate')
                                if getattr(self, name) is None})

    def column_pair(self) -> tuple[int, ...]:
        """(token, tag) as numbers."""
        return whole_numbers('columns', self.columns, [2])

    def frozen(self) -> list[str]:
        """The names of the parts of the network that stay as they are."""
        return list(dict.fromkeys(name.strip() for name in self.freeze.split(','))) if self.freeze else []

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, record: Any, source: object) -> dict[str, Any]:
        """Options by name from a JSON object; raises OptionError for what is no option."""
        if not isinstance(record, dict):
            raise OptionError(f'{source}: expected a JSON object of options, got {type(record).__name__}')
        values = {}
        for name, value in record.items():
            entry = _ENTRIES.get(name.replace('-', '_'))
            if entry is None:
                raise OptionError(f'{source}: {brief(name)} is no option{meant(name, map(dashed, _ENTRIES))}')
            if entry.name in values:
                raise OptionError(f'{source}: {brief(name)} appears twice, expected it once')
            try:
                check_value(entry, value)
            except OptionError as error:
                raise OptionError(f'{source}: {error.message}') from None
            values[entry.name] = value
        return values


_ENTRIES: dict[str, Field] = {entry.name: entry for entry in fields(Options)}
#: the options that have an effect with every model that is trained in steps
STEP_OPTIONS = [name for name, entry in _ENTRIES.items() if name in ('head', 'constraints') or (
    entry.metadata['group'] in ('Against overfitting', 'Training') and not {'encoder', 'embeddings'} & {
        *entry.metadata['needs']} and name != 'precision')]


def dashed(name: str) -> str:
    return name.replace('_', '-')


def _lies_in(path: str, folder: str) -> bool:
    real = Path(os.path.realpath(path))
    return Path(os.path.realpath(folder)) in (real, *real.parents)
