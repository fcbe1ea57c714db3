"""The options of a training: names, defaults, limits and help texts, for the command line and option files."""

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

WIDEST = 65_536                # limit of the size of vectors and layers; memory limits the size earlier


def option(default: Any, group: str, text: str, metavar: str | None = None, **others: Any) -> Any:
    """Returns a field of `Options`, see `ms_crf.base.arguments.option`.

    The model type determines which options have an effect, except for the group 'Files'; see `ms_crf.runs.model_types`.
    """
    return arguments.option(default, group, text, metavar, **{
        'by_type': group != 'Files', 'negatable': True, 'recorded': True, **others})


_OF_WORDS, _OF_ENCODERS, _OF_LAYERS = {'encoder': False}, {'encoder': True}, {'encoder_lstm': UNLESS_0}
_OF_CHARACTERS = {'char': ('cnn', 'lstm')}


@dataclass
class Options(Arguments):
    """The options of `train`, which config.json records."""

    train: str = option(sample('train'), 'Files', 'training sentences: columns, JSON (.jsonl, .json) or brat; see the '
                        'topic "Formats" in the documentation (default: the sample corpus)', FILE)
    dev: str = option(sample('dev'), 'Files', 'development sentences, which select the best epoch (default: the sample '
                      'corpus)', FILE)
    test: str = option(sample('test'), 'Files', 'test sentences, on which the best epoch is scored; empty for none '
                       f'(default: the sample corpus; none with {argument("train")})', FILE, may_be_empty=True)
    columns: str = option('0,-1', 'Files', 'indices of the columns of token and tag, counted from 0; -1 is the last '
                          'column; 0,-1 means 1,3 in .conllu', 'TOKEN,TAG')
    splitter: str = option(AUTO, 'Files', 'tokenizer that splits raw text into sentences and tokens, in training and '
                           f'tagging: {CHOICES}; auto is {DEFAULT}, or characters if most training tokens are single '
                           'characters', 'NAME')
    unknown_tag: str = option(MARK, 'Files', 'mark of an unknown tag: it replaces the tag of an unlabelled token, or '
                              "only the type or the prefix in a tag such as B-PER; '' for no mark", 'TAG')
    allow_any_tags: bool = option(False, 'Files', 'accept a training file whose tags look wrong, such as prose or tags '
                                  'that are nearly all different')
    scheme: str = option('auto', 'Files', 'tag scheme of the model and of its predictions; auto is the scheme of the '
                         'files (BIO for IOB1), except that a CRF with constraints trains on BIO as BIOES and predicts '
                         'BIO', choices=('auto', 'BIO', 'BIOES', 'BMES'))
    save: str = option('runs/sample', 'Files', 'run directory to write the model to', DIR)

    model: str = option(model_types.DEFAULT, 'Model', model_types.HELP, choices=model_types.MODELS, by_type=False)
    add: float = option(0.1, 'Model', 'smoothing of a hidden Markov model: number added to every count', 'COUNT',
                        least=1e-9, most=1e6)
    embeddings: str = option('', 'Model', 'file of pretrained word vectors, word2vec or GloVe text, also .gz (default: '
                             'random vectors)', FILE, needs=_OF_WORDS)
    word_dim: int = option(100, 'Model', f'size of random word vectors; vectors of {argument("embeddings")} have their '
                           'own size', 'N', least=1, most=WIDEST, needs={**_OF_WORDS, 'embeddings': False})
    # The defaults of options with None are computed by `settled`.
    char: str = option(None, 'Model', 'network that reads the characters of a word; none for no network (default: cnn, '
                       'or none if most words are single characters)', choices=('cnn', 'lstm', 'none'), needs=_OF_WORDS)
    bigrams: bool = option(None, 'Model', 'learn vectors of pairs of neighbouring words (default: only if most words '
                           'are single characters)', needs=_OF_WORDS)
    ngrams: bool = option(None, 'Model', 'compute vectors of out-of-vocabulary words, which are missing in '
                          f'{argument("embeddings")}, from character n-grams (default: yes, unless most words are '
                          'single characters)', needs={**_OF_WORDS, 'embeddings': True})
    char_dim: int = option(30, 'Model', 'size of a character vector', 'N', least=1, most=WIDEST, needs=_OF_CHARACTERS)
    char_width: int = option(50, 'Model', 'size of the vector computed from the characters of a word; even', 'N',
                             least=2, most=WIDEST, needs=_OF_CHARACTERS)
    char_length: int = option(16, 'Model', 'maximum number of characters per word; the middle of longer words is not '
                              'read', 'N', least=2, most=1000, needs=_OF_CHARACTERS)
    hidden: int = option(200, 'Model', 'size of a BiLSTM layer, both directions together; even', 'N', least=2,
                         most=WIDEST, needs=_OF_WORDS)
    layers: int = option(1, 'Model', 'number of BiLSTM layers', 'N', least=1, most=100, needs=_OF_LAYERS)
    encoder: str = option('', 'Encoder', 'folder of a pretrained BERT or RoBERTa model, whose vectors replace word and '
                          'character vectors', DIR)
    encoder_lr: float = option(0.0, 'Encoder', 'learning rate for fine-tuning the encoder; 0 freezes the encoder',
                               'RATE', least=0, most=100, needs=_OF_ENCODERS)
    encoder_lstm: int = option(400, 'Encoder', 'size of the BiLSTM layer over subwords, both directions together; '
                               'even; 0 for no BiLSTM', 'N', least=0, most=WIDEST, needs=_OF_ENCODERS)
    encoder_cache: str = option('', 'Encoder', 'folder to cache the vectors of a frozen encoder in, also for further '
                                'runs (default: cached in memory)', DIR, needs=_OF_ENCODERS)
    encoder_link: bool = option(False, 'Encoder', 'save the path and checksum of the encoder in the run instead of a '
                                'copy of the encoder', needs=_OF_ENCODERS)

    head: str = option('crf', 'Model', 'output layer of the network', choices=('crf', 'softmax'))
    constraints: bool = option(True, 'Model', 'forbid tag sequences in the CRF that are invalid in the tag scheme',
                               needs={'head': ('crf',)})
    init: str = option('', 'Model', 'base run to fine-tune: training begins with the weights and vocabulary of this '
                       'run, which also determines the options of the network', DIR)
    freeze: str = option('', 'Model', f'parts of the network of {argument("init")} whose weights are not trained: '
                         'words, characters, lstm; separated by commas', 'PARTS', needs={'init': True})

    dropout_embedding: float = option(0.4, 'Regularization', 'dropout rate of the input vectors; 0 for no dropout',
                                      'SHARE', least=0, most=0.95)
    dropout_between: float = option(0.4, 'Regularization', 'dropout rate of the output of each BiLSTM layer; 0 for no '
                                    'dropout', 'SHARE', least=0, most=0.95, needs=_OF_LAYERS)
    dropout_kind: str = option('locked', 'Regularization', 'locked: one dropout mask for all words of a sentence; '
                               'free: a new mask for each word', choices=('locked', 'free'),
                               needs={('dropout_embedding', 'dropout_between'): True})
    unknown: float = option(0.25, 'Regularization', 'word dropout: a word that occurs n times is replaced by the '
                            'unknown word with probability Z / (Z + n); 0 for no replacement', 'Z', least=0, most=1e9,
                            needs=_OF_WORDS)
    weight_decay: float = option(0.0, 'Regularization', 'weight decay of the optimizers adamw and sgd; 0 for none',
                                 'RATE', least=0, most=100, needs={'optimizer': ('adamw', 'sgd')})
    average: float = option(0.9995, 'Regularization', 'decay of the running average of the weights, which is scored '
                            'and saved; 0 turns averaging off', 'SHARE', least=0, most=0.99999)

    # The defaults of options with None are computed by `course_of`.
    epochs: int = option(None, 'Optimization', 'maximum number of epochs (default: 40, or as many as 1,000 steps take)',
                         'N', least=1, most=1_000_000)
    patience: int = option(None, 'Optimization', 'early stopping: number of epochs without a better dev score after '
                           'which training stops; 0 turns early stopping off (default: 12, or as many as 300 steps '
                           'take)', 'N', least=0, most=1_000_000)
    batch_size: int = option(16, 'Optimization', 'number of sentences per batch', 'N', least=1, most=100_000)
    optimizer: str = option('adam', 'Optimization', 'optimizer', choices=('adam', 'adamw', 'sgd'))
    learning_rate: float = option(0.004, 'Optimization', 'maximum learning rate', 'RATE', least=1e-12, most=100)
    momentum: float = option(0.9, 'Optimization', 'momentum of the SGD optimizer', 'SHARE', least=0, most=0.9999,
                             needs={'optimizer': ('sgd',)})
    schedule: str = option('cosine', 'Optimization', 'learning rate schedule',
                           choices=('constant', 'inverse', 'cosine'))
    decay: float = option(None, 'Optimization', 'decay of the schedule inverse: the learning rate is divided by (1 + D '
                          '* finished epochs) (default: 0.03, less if there are more than 40 epochs)', 'D', least=0,
                          most=1e6, needs={'schedule': ('inverse',)})
    warmup: float = option(None, 'Optimization', 'warm-up of the schedule cosine: number of epochs in which the '
                           'learning rate rises; 0 for none (default: 0.5, or as many as 12.5 steps take)', 'EPOCHS',
                           least=0, most=1e6, needs={'schedule': ('cosine',)})
    crf_rate: float = option(2.0, 'Optimization', 'learning rate factor of the CRF weights; 0 freezes them', 'FACTOR',
                             least=0, most=1e6, needs={'head': ('crf',)})
    word_rate: float = option(None, 'Optimization', 'learning rate factor of the word vectors; 0 freezes them '
                              f'(default: 0.3 with {argument("embeddings")}, otherwise 1)', 'FACTOR', least=0, most=1e6,
                              needs=_OF_WORDS)
    clip: float = option(5.0, 'Optimization', 'gradient clipping: maximum norm of the gradients; 0 turns clipping off',
                         'NORM', least=0, most=1e9)
    balance: bool = option(True, 'Optimization', 'after the training, shift the score of O to the value with the best '
                           'F1 on dev')
    precision: str = option('float32', 'Optimization', 'mixed: mixed precision, 16 bits in LSTMs and characters; needs '
                            'a GPU or Ascend', choices=('float32', 'mixed'))
    seed: int = option(1, 'Optimization', 'random seed', 'N', least=0, most=2 ** 31 - 1)

    def reasons(self) -> Mapping[str, str | None]:
        """Returns, by option, why it has no effect."""
        paths = filter(None, (self.train, self.dev, self.test))
        reasons = [without_columns(path) for path in paths]
        return {'columns': reasons[0] if reasons and all(reasons) else None,
                'word_rate': f'with {argument("freeze")} words' if 'words' in self.frozen() else None}

    def _needs(self, name: str) -> Mapping[Any, Any]:
        needs = super()._needs(name)
        return model_types.needs_of(name, self.model, needs) if _ENTRIES[name].metadata['by_type'] else needs

    def check(self) -> None:
        """Raises OptionError at the first invalid value."""
        super().check()
        for name in ('hidden', 'char_width', 'encoder_lstm'):
            if getattr(self, name) % 2:
                raise OptionError(f'{argument(name)} must be even, half for each direction, got {getattr(self, name)}')
        if self.splitter != AUTO:
            check_name(self.splitter, argument('splitter'))
        self.column_pair()
        if self.encoder_lr > 0 and self.encoder_cache:
            raise OptionError(f'{argument("encoder_cache")} needs a frozen encoder; omit it or '
                              f'{argument("encoder_lr")}')
        for name in ('encoder', 'encoder_cache'):
            path = getattr(self, name)
            if path and _lies_in(path, self.save):
                raise OptionError(f'{argument(name)} must not be inside {argument("save")}, got {path}; choose '
                                  'another folder')

    def settled(self, of_characters: bool) -> 'Options':
        """Returns a copy in which every option has a value, also the options whose default depends on text and files.

        Args:
            of_characters: whether most words of the training text are single characters, as in Chinese.
        """
        return self.settled_as(replace(
            self, char='none' if of_characters else 'cnn', bigrams=of_characters,
            ngrams=bool(self.embeddings) and not of_characters, word_rate=0.3 if self.embeddings else 1.0))

    def settled_as(self, other: 'Options') -> 'Options':
        """Returns a copy whose missing values are taken from `other`, for options whose default depends on the text."""
        return replace(self, **{name: getattr(other, name) for name in ('char', 'bigrams', 'ngrams', 'word_rate')
                                if getattr(self, name) is None})

    def column_pair(self) -> tuple[int, ...]:
        """Returns the indices of the columns (token, tag)."""
        return whole_numbers('columns', self.columns, [2])

    def frozen(self) -> list[str]:
        """Returns the names of the frozen parts of the network."""
        return list(dict.fromkeys(name.strip() for name in self.freeze.split(','))) if self.freeze else []

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, record: Any, source: object) -> dict[str, Any]:
        """Returns options by name from a JSON object; raises OptionError for unknown options and invalid values."""
        if not isinstance(record, dict):
            raise OptionError(f'{source}: expected a JSON object of options, got {type(record).__name__}')
        values = {}
        for name, value in record.items():
            entry = _ENTRIES.get(name.replace('-', '_'))
            if entry is None:
                raise OptionError(f'{source}: unknown option {brief(name)}{meant(name, map(dashed, _ENTRIES))}')
            if entry.name in values:
                raise OptionError(f'{source}: {brief(name)} appears twice, expected it once')
            try:
                check_value(entry, value)
            except OptionError as error:
                raise OptionError(f'{source}: {error.message}') from None
            values[entry.name] = value
        return values


_ENTRIES: dict[str, Field] = {entry.name: entry for entry in fields(Options)}
#: the options that have an effect with every model that is trained by gradient descent
STEP_OPTIONS = [name for name, entry in _ENTRIES.items() if name in ('head', 'constraints') or (
    entry.metadata['group'] in ('Regularization', 'Optimization') and not {'encoder', 'embeddings'} & {
        *entry.metadata['needs']} and name != 'precision')]


def dashed(name: str) -> str:
    return name.replace('_', '-')


def _lies_in(path: str, folder: str) -> bool:
    real = Path(os.path.realpath(path))
    return Path(os.path.realpath(folder)) in (real, *real.parents)
