"""The options of a training: names, defaults and what they may be, for the command line as for a file."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path


class OptionError(ValueError):
    """An option that can't be, in one line."""


def option(default, group, text, choices=None, least=None, most=None):
    return field(default=default, metadata={'group': group, 'text': text, 'choices': choices, 'least': least,
                                            'most': most})


# What means nothing with an encoder, and without layers over it.
_OF_WORDS = ('embeddings', 'word_dim', 'char', 'char_dim', 'char_width', 'char_length', 'hidden', 'unknown',
             'word_rate')
_OF_LAYERS = ('layers', 'dropout_between')


@dataclass
class Options:
    """What `train.py` takes, and config.json keeps."""

    train: str = option('data/train.tsv', 'Files', 'tagged sentences to learn from: columns, or JSON lines (.jsonl)')
    dev: str = option('data/dev.tsv', 'Files', 'tagged sentences to choose the best epoch by')
    test: str = option('data/test.tsv', 'Files',
                       'tagged sentences to score the best epoch on; none unless named if --train is named')
    columns: str = option('0,-1', 'Files', 'column of the token and of the tag, from 0, or from -1 backwards')
    scheme: str = option('auto', 'Files', 'tag scheme to train in; auto is that of the files, BIO for IOB1',
                         choices=('auto', 'BIO', 'BIOES', 'BMES'))
    save: str = option('runs/sample', 'Files', 'run directory to make')

    model: str = option('bilstm', 'Model', 'bilstm, to be trained, or hmm, a hidden Markov model, which is counted',
                        choices=('bilstm', 'hmm'))
    add: float = option(0.1, 'Model', 'of hmm: added to every count', least=1e-9)
    embeddings: str = option('', 'Model', 'word vectors, word2vec or GloVe text, .gz too; "" for random ones')
    word_dim: int = option(100, 'Model', 'width of a word vector; --embeddings brings its own', least=1)
    char: str = option('cnn', 'Model', 'how a word\'s characters are read', choices=('cnn', 'lstm', 'none'))
    char_dim: int = option(30, 'Model', 'width of a character vector', least=1)
    char_width: int = option(50, 'Model', 'width of what a word\'s characters become; even', least=2)
    char_length: int = option(16, 'Model', 'characters that are read; of a longer word the first and the last half',
                              least=2)
    hidden: int = option(200, 'Model', 'width of a BiLSTM layer, half for each direction; even', least=2)
    layers: int = option(1, 'Model', 'number of BiLSTM layers', least=1)
    encoder: str = option('', 'Encoder', 'folder of a pretrained BERT or RoBERTa model, whose vectors take the place '
                          'of word vectors and characters')
    encoder_lr: float = option(0.0, 'Encoder', 'learning rate of the encoder; 0 keeps it as it is', least=0)
    encoder_lstm: int = option(200, 'Encoder', 'width of a BiLSTM layer over the pieces of words, half for each '
                               'direction; even; 0 for none', least=0)
    encoder_cache: str = option('', 'Encoder', 'folder to keep a frozen encoder\'s vectors in, for this run and '
                                'others; "" for memory')
    encoder_link: bool = option(False, 'Encoder', 'let the run name the folder of the encoder and its checksum, not '
                                'hold a copy')

    head: str = option('crf', 'Model', 'how tags are chosen', choices=('crf', 'softmax'))
    constraints: bool = option(True, 'Model', 'forbid what the tag scheme forbids; of crf')

    dropout_embedding: float = option(0.5, 'Against overfitting', 'share of the input that is dropped', least=0,
                                      most=0.95)
    dropout_between: float = option(0.5, 'Against overfitting', 'share of each layer\'s output that is dropped',
                                    least=0, most=0.95)
    dropout_kind: str = option('locked', 'Against overfitting',
                               'locked: a sentence loses the same at each of its words; free: each word its own',
                               choices=('locked', 'free'))
    unknown: float = option(0.25, 'Against overfitting',
                            'Z: a word that occurs n times becomes the unknown word with probability Z / (Z + n)',
                            least=0)
    weight_decay: float = option(0.0, 'Against overfitting', 'of adamw and sgd', least=0)
    average: float = option(0.998, 'Against overfitting',
                            'decay of the running average of the weights that is scored and saved; 0 for '
                            'none', least=0, most=0.99999)

    epochs: int = option(24, 'Training', 'times through the training sentences', least=1)
    patience: int = option(8, 'Training', 'epochs without a better dev score before it stops; 0 for all epochs',
                           least=0)
    batch_size: int = option(32, 'Training', 'sentences of a step', least=1)
    optimizer: str = option('adam', 'Training', 'kind of update', choices=('adam', 'adamw', 'sgd'))
    learning_rate: float = option(0.005, 'Training', 'at its highest', least=1e-12)
    momentum: float = option(0.9, 'Training', 'of sgd', least=0, most=0.9999)
    schedule: str = option('cosine', 'Training', 'how the learning rate falls',
                           choices=('constant', 'inverse', 'cosine'))
    decay: float = option(0.05, 'Training', 'D of inverse: rate / (1 + D * epochs done)', least=0)
    warmup: float = option(0.5, 'Training', 'epochs over which the rate rises at first; of cosine', least=0)
    crf_rate: float = option(5.0, 'Training', 'multiplies the learning rate of the CRF\'s own weights', least=0)
    word_rate: float = option(1.0, 'Training', 'multiplies that of the word vectors; 0 keeps them as they are', least=0)
    clip: float = option(5.0, 'Training', 'norm that gradients are cut down to; 0 for no limit', least=0)
    precision: str = option('float32', 'Training', 'mixed: 16 bits in the LSTMs and characters; not on CPU',
                            choices=('float32', 'mixed'))
    seed: int = option(1, 'Training', 'of everything that is random', least=0, most=2 ** 31 - 1)

    def check_given(self, names):
        """Raises OptionError if one of the options that were named means nothing to the model."""
        for entry in fields(self):
            name, group = entry.name, entry.metadata['group']
            if name not in names or group == 'Files' or name == 'model':
                continue
            if (name == 'add') != (self.model == 'hmm'):
                why = f'to --model {self.model}'
            elif self.encoder and name in _OF_WORDS:
                why = 'with --encoder'
            elif not self.encoder and group == 'Encoder' and name != 'encoder':
                why = 'without --encoder'
            elif self.encoder and not self.encoder_lstm and name in _OF_LAYERS:
                why = 'with --encoder-lstm 0'
            else:
                continue
            raise OptionError(f'--{dashed(name)} means nothing {why}; leave it away')

    def check(self):
        """Raises OptionError at the first value that can't be."""
        for entry in fields(self):
            _check_value(entry, getattr(self, entry.name))
        for name in ('hidden', 'char_width', 'encoder_lstm'):
            if getattr(self, name) % 2:
                raise OptionError(f'--{dashed(name)} must be even, half for each direction, got {getattr(self, name)}')
        if len(self.column_pair()) != 2:
            raise OptionError(f'--columns must be two numbers like 0,-1, got {self.columns!r}')
        if self.encoder_lr > 0 and self.encoder_cache:
            raise OptionError('--encoder-cache is for a frozen encoder; leave it or --encoder-lr away')
        for name in ('encoder', 'encoder_cache'):
            path = getattr(self, name)
            if path and Path(self.save).resolve() in (Path(path).resolve(), *Path(path).resolve().parents):
                raise OptionError(f'--{dashed(name)} must not lie within --save, got {path}; copy or name it elsewhere')
        for name in ('train', 'dev', 'save'):
            if not getattr(self, name):
                raise OptionError(f'--{name} must be a name, got nothing')

    def column_pair(self):
        """(token, tag) as numbers; () if they are not two."""
        try:
            token, tag = (int(part) for part in self.columns.split(','))
        except ValueError:
            return ()
        return (token, tag) if token != tag else ()

    def to_json(self):
        return asdict(self)

    @classmethod
    def read(cls, record, source):
        """Options by name from a JSON object; raises OptionError for what is no option."""
        if not isinstance(record, dict):
            raise OptionError(f'{source}: expected a JSON object of options, got {type(record).__name__}')
        entries = {entry.name: entry for entry in fields(cls)}
        found = {}
        for name, value in record.items():
            entry = entries.get(name.replace('-', '_'))
            if entry is None:
                raise OptionError(f'{source}: {name!r} is no option; see --help')
            try:
                _check_value(entry, value)
            except OptionError as error:
                raise OptionError(f'{source}: {error}') from None
            found[entry.name] = value
        return found


def dashed(name):
    return name.replace('_', '-')


def _check_value(entry, value):
    limits, name = entry.metadata, dashed(entry.name)
    kinds = (int, float) if isinstance(entry.default, float) else type(entry.default)
    if not isinstance(value, kinds) or (isinstance(value, bool) and not isinstance(entry.default, bool)):
        expected = {str: 'text', int: 'a whole number', float: 'a number', bool: 'true or false'}[type(entry.default)]
        raise OptionError(f'--{name} must be {expected}, got {value!r}')
    if limits['choices'] and value not in limits['choices']:
        raise OptionError(f'--{name} must be one of {", ".join(limits["choices"])}, got {value!r}')
    if limits['least'] is not None and not value >= limits['least']:
        raise OptionError(f'--{name} must be at least {limits["least"]}, got {value}')
    if limits['most'] is not None and not value <= limits['most']:
        raise OptionError(f'--{name} must be at most {limits["most"]}, got {value}')
    if isinstance(value, float) and value == float('inf'):
        raise OptionError(f'--{name} must be finite, got {value}')
