"""A plain PyTorch tagger, the peer of the benchmarks: GloVe, character CNN, BiLSTM, pytorch-crf, Adam."""

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torchcrf import CRF


class Peer(nn.Module):
    """The same sizes as `TaggerNetwork`."""

    def __init__(self, num_words, word_dim, num_tags, hidden_dim, num_characters, char_dim, char_width):
        super().__init__()
        self.words = nn.Embedding(num_words, word_dim, padding_idx=0)
        self.characters = nn.Embedding(num_characters, char_dim, padding_idx=0)
        self.filters = nn.Conv1d(char_dim, char_width, 3, padding=1)
        self.dropout = nn.Dropout(0.5)
        self.lstm = nn.LSTM(word_dim + char_width, hidden_dim // 2, batch_first=True, bidirectional=True)
        self.projection = nn.Linear(hidden_dim, num_tags)
        self.crf = CRF(num_tags, batch_first=True)

    def forward(self, words, spellings, lengths, tags):
        """Mean negative log likelihood."""
        emissions, mask = self.emissions(words, spellings, lengths)
        return -self.crf(emissions, tags, mask=mask, reduction='mean')

    def decode(self, words, spellings, lengths):
        emissions, mask = self.emissions(words, spellings, lengths)
        return self.crf.decode(emissions, mask)

    def emissions(self, words, spellings, lengths):
        batch, length, characters = spellings.shape
        read = self.characters(spellings.view(batch * length, characters)).transpose(1, 2)
        read = torch.relu(self.filters(read)).amax(2).view(batch, length, -1)
        vectors = self.dropout(torch.cat((self.words(words), read), 2))
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=length)
        mask = torch.arange(length)[None] < lengths[:, None]
        return self.projection(self.dropout(hidden)), mask


def from_run(run):
    """A peer with the weights of a run directory, which has one layer and reads characters with a CNN."""
    from ms_crf.models.words.vocabulary import Vocabulary
    from ms_crf.runs import records
    from ms_crf.text.schemes import allowed_transitions

    config = records.read_config(run)
    options, vocabulary = records.read_options(run, config), records.read_vocabulary(run, Vocabulary)
    weights = {name: torch.tensor(array)
               for name, array in records.read_tensors(f'{run}/{records.WEIGHTS}').items()}
    model = Peer(vocabulary.num_words, config['word_dim'], len(vocabulary.tags), options.hidden,
                 vocabulary.num_characters, options.char_dim, options.char_width)
    model.words.weight.data = weights['word_table']
    model.characters.weight.data = weights['characters.table.weight']
    model.characters.weight.data[0] = 0
    # Ours also sees the windows that reach two places beyond a word, and has no bias there.
    model.filters.padding = (2,)
    model.filters.bias.data.zero_()
    filters = weights['characters.filters.weight'].view(options.char_width, 3, options.char_dim)
    model.filters.weight.data = filters.transpose(1, 2).contiguous()
    for direction, ending in (('forward', ''), ('backward', '_reverse')):
        for kind in ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh'):
            name, = (name for name in weights if name.startswith(f'layers.0.{direction}_lstm.') and kind in name)
            getattr(model.lstm, f'{kind}_l0{ending}').data = weights[name]
    model.projection.weight.data = weights['projection.weight']
    model.projection.bias.data = weights['projection.bias']
    forbidden = {}
    if options.constraints:
        allowed = allowed_transitions(config['scheme'], vocabulary.tags)
        forbidden = {'transitions': ~allowed.transitions, 'start_transitions': ~allowed.start,
                     'end_transitions': ~allowed.end}
    for name in ('transitions', 'start_transitions', 'end_transitions'):
        values = weights[f'head.{name}']
        if forbidden:
            values = values.masked_fill(torch.tensor(forbidden[name]), -1e4)
        getattr(model.crf, name).data = values
    return model.eval()


def batch_of(encoded, numbers):
    """Tensors of a batch, as long as its longest sentence and its longest word."""
    lengths = encoded.lengths[numbers]
    words, tags = np.zeros((2, len(numbers), lengths.max()), np.int64)
    spellings = np.zeros((len(numbers), lengths.max(), encoded.spelling_of.shape[1]), np.int64)
    for row, number in enumerate(numbers):
        forms = encoded.tokens[number]
        words[row, :len(forms)] = encoded.word_of[forms]
        spellings[row, :len(forms)] = encoded.spelling_of[forms]
        if encoded.tags is not None:
            tags[row, :len(forms)] = encoded.tags[number]
    spellings = spellings[:, :, :max(3, (spellings != 0).sum(2).max())]
    return [torch.from_numpy(array) for array in (words, spellings, lengths.astype(np.int64), tags)]


def prepare(encoded, batch_size, generator):
    """An epoch's batches in random order."""
    order = generator.permutation(len(encoded.tokens))
    return [batch_of(encoded, order[first:first + batch_size]) for first in range(0, len(order), batch_size)]


def run_epoch(model, optimizer, batches):
    """Mean loss of the batches."""
    total = 0.0
    for words, spellings, lengths, tags in batches:
        optimizer.zero_grad()
        loss = model(words, spellings, lengths, tags)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
    return total / len(batches)


def tag(model, encoded, names, batch_size=64, by_length=True):
    """Lists of tag names for all sentences."""
    found = [None] * len(encoded.tokens)
    order = np.argsort(encoded.lengths, kind='stable') if by_length else np.arange(len(encoded.lengths))
    with torch.no_grad():
        for first in range(0, len(order), batch_size):
            numbers = order[first:first + batch_size]
            words, spellings, lengths, _ = batch_of(encoded, numbers)
            for number, path in zip(numbers, model.decode(words, spellings, lengths)):
                found[number] = [names[index] for index in path]
    return found
