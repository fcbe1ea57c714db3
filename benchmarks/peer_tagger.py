"""The PyTorch tagger of the benchmarks, in two versions with the sizes of `TaggerNetwork`.

`Packed` is the usual first version: a packed LSTM, pytorch-crf, Adam over all parameters. `Padded` is the fastest
version that we could write. It reads each distinct word of a batch once, and batches have sentences of similar lengths.
Two LSTMs run over padded batches, the second over reversed sentences, so that oneDNN does not stop at each step. The
normalizer uses matrix products in the log domain. Only the rows of the word table in the batch get gradients and
updates.
"""

import sys

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torchcrf import CRF


class Batch:
    """Tensors of a batch of sentences: the distinct words, and their positions in the sentences.

    Attributes:
        words: word ids of the distinct word forms, (F,).
        spellings: character ids of the forms, (F, length of the longest word, at least 3).
        places: index of the form at each position, (length, batch); 0 on padding.
        lengths: lengths of the sentences, (batch,).
        tags: tag ids, (length, batch); 0 on padding.
    """

    def __init__(self, encoded, numbers):
        lengths = encoded.lengths[numbers].astype(np.int64)
        tokens = np.concatenate([encoded.tokens[number] for number in numbers])
        forms, places = np.unique(tokens, return_inverse=True)
        spellings = encoded.spelling_of[forms]
        width = max(3, int((spellings != 0).sum(1).max()))
        row = np.repeat(np.arange(len(numbers)), lengths)
        position = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        self.words = torch.from_numpy(encoded.word_of[forms].astype(np.int64))
        self.spellings = torch.from_numpy(spellings[:, :width].astype(np.int64))
        self.lengths = torch.from_numpy(lengths)
        self.places, self.tags = (torch.zeros(int(lengths.max()), len(numbers), dtype=torch.int64) for _ in range(2))
        self.places[position, row] = torch.from_numpy(places)
        if encoded.tags is not None:
            self.tags[position, row] = torch.from_numpy(
                np.concatenate([encoded.tags[number] for number in numbers]).astype(np.int64))
        time = torch.arange(len(self.places))[:, None]
        self.mask = time < self.lengths
        self.turned = torch.where(self.mask, self.lengths - 1 - time, time)        # indices that reverse each sentence


class Chain(nn.Module):
    """A linear-chain CRF, length first. Its recursion needs no mask, as positions after a sentence are never read."""

    def __init__(self, num_tags):
        super().__init__()
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))
        self.start_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))
        self.end_transitions = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))

    def loss(self, emissions, tags, mask, lengths):
        """Negative log likelihood, averaged over the sentences."""
        rows = torch.arange(emissions.shape[1])
        live = mask.to(emissions.dtype)
        gold = (emissions.gather(2, tags[..., None])[..., 0] * live).sum(0)
        gold = gold + (self.transitions[tags[:-1], tags[1:]] * live[1:]).sum(0)
        gold = gold + self.start_transitions[tags[0]] + self.end_transitions[tags[lengths - 1, rows]]
        factors = self.transitions.exp()
        state = self.start_transitions + emissions[0]
        states = [state]
        for emission in emissions[1:].unbind(0):
            peak = state.detach().amax(1, keepdim=True)
            state = ((state - peak).exp() @ factors).log() + peak + emission
            states.append(state)
        last = torch.stack(states)[lengths - 1, rows] + self.end_transitions
        return (last.logsumexp(1) - gold).mean()

    def decode(self, emissions, lengths):
        """The best path of each sentence, as lists of tag ids."""
        state, history = self.start_transitions + emissions[0], []
        states = [state]
        for emission in emissions[1:].unbind(0):
            best, chosen = (state[:, :, None] + self.transitions).max(1)
            state = best + emission
            states.append(state)
            history.append(chosen)
        rows = torch.arange(emissions.shape[1])
        tag = (torch.stack(states)[lengths - 1, rows] + self.end_transitions).argmax(1).numpy()
        paths = np.zeros(emissions.shape[:2], np.int64)
        rows, counts = rows.numpy(), lengths.numpy()
        for position in range(len(paths) - 1, -1, -1):
            if position < len(paths) - 1:                        # positions after a sentence keep its last tag
                before = history[position].numpy()[rows, tag]
                tag = np.where(position + 1 < counts, before, tag)
            paths[position] = tag
        return [paths[:count, row].tolist() for row, count in enumerate(counts)]


class Tagger(nn.Module):
    """The shared parts of both taggers: word vectors, a convolution over characters, dropout, and a projection.

    Args:
        sparse: whether only the rows of the word table that occur in a batch get gradients.
    """

    def __init__(self, num_words, word_dim, num_tags, hidden_dim, num_characters, char_dim, char_width, sparse):
        super().__init__()
        self.words = nn.Embedding(num_words, word_dim, padding_idx=0, sparse=sparse)
        self.characters = nn.Embedding(num_characters, char_dim, padding_idx=0)
        self.filters = nn.Conv1d(char_dim, char_width, 3, padding=1)
        self.dropout = nn.Dropout(0.5)
        self.projection = nn.Linear(hidden_dim, num_tags)

    def vectors(self, batch):
        """Input vectors of the LSTM, (length, batch, word_dim + char_width)."""
        read = torch.relu(self.filters(self.characters(batch.spellings).transpose(1, 2))).max(2)[0]
        forms = torch.cat((self.words(batch.words), read), 1)
        return self.dropout(nn.functional.embedding(batch.places, forms))

    def emissions(self, batch):
        return self.projection(self.dropout(self.hidden(self.vectors(batch), batch)))


class Packed(Tagger):
    """The usual first version of a tagger: a packed LSTM and pytorch-crf."""

    def __init__(self, num_words, word_dim, num_tags, hidden_dim, num_characters, char_dim, char_width):
        super().__init__(num_words, word_dim, num_tags, hidden_dim, num_characters, char_dim, char_width, False)
        self.lstm = nn.LSTM(word_dim + char_width, hidden_dim // 2, bidirectional=True)
        self.crf = CRF(num_tags)

    def hidden(self, vectors, batch):
        packed = pack_padded_sequence(vectors, batch.lengths, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0])[0]

    def loss(self, batch):
        return -self.crf(self.emissions(batch), batch.tags, mask=batch.mask, reduction='mean')

    def decode(self, batch):
        return self.crf.decode(self.emissions(batch), batch.mask)

    def optimizers(self):
        return [torch.optim.Adam(self.parameters(), 1e-3, fused=True)]


class Padded(Tagger):
    """The fastest version: two LSTMs over padded batches, and our own CRF."""

    def __init__(self, num_words, word_dim, num_tags, hidden_dim, num_characters, char_dim, char_width):
        super().__init__(num_words, word_dim, num_tags, hidden_dim, num_characters, char_dim, char_width, True)
        self.forward_lstm = nn.LSTM(word_dim + char_width, hidden_dim // 2)
        self.backward_lstm = nn.LSTM(word_dim + char_width, hidden_dim // 2)
        self.crf = Chain(num_tags)

    def hidden(self, vectors, batch):
        rows = torch.arange(vectors.shape[1])
        backward = self.backward_lstm(vectors[batch.turned, rows])[0]
        return torch.cat((self.forward_lstm(vectors)[0], backward[batch.turned, rows]), 2)

    def loss(self, batch):
        return self.crf.loss(self.emissions(batch), batch.tags, batch.mask, batch.lengths)

    def decode(self, batch):
        return self.crf.decode(self.emissions(batch), batch.lengths)

    def optimizers(self):
        others = [parameter for name, parameter in self.named_parameters() if name != 'words.weight']
        return [torch.optim.Adam(others, 1e-3, fused=True), torch.optim.SparseAdam([self.words.weight], 1e-3)]


FORMS = {'padded': Padded, 'packed': Packed}


def from_run(run, form='padded'):
    """A PyTorch tagger with the weights of a run.

    The run must have one LSTM layer, a CNN over characters and no character n-grams.
    """
    from ms_crf.models.words.vocabulary import Vocabulary
    from ms_crf.runs.run import SavedRun
    from ms_crf.text.schemes import allowed_transitions

    opened = SavedRun.open(run)
    options, vocabulary = opened.options, opened.vocabulary(Vocabulary)
    if vocabulary.ngrams:
        sys.exit(f'{run}: expected a run without n-grams, which these taggers do not read; train it with --no-ngrams')
    weights = {name: torch.tensor(array) for name, array in opened.tensors().items()}
    model = FORMS[form](vocabulary.num_words, opened.config['word_dim'], len(vocabulary.tags), options.hidden,
                        vocabulary.num_characters, options.char_dim, options.char_width)
    model.words.weight.data = weights['word_table']
    model.characters.weight.data = weights['characters.table.weight']
    model.characters.weight.data[0] = 0
    # The CNN of ms_crf also reads windows that extend two positions beyond a word, and it has no bias.
    model.filters.padding = (2,)
    model.filters.bias.data.zero_()
    filters = weights['characters.filters.weight'].view(options.char_width, 3, options.char_dim)
    model.filters.weight.data = filters.transpose(1, 2).contiguous()
    for direction, ending in (('forward', ''), ('backward', '_reverse')):
        for kind in ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh'):
            name, = (name for name in weights if name.startswith(f'layers.0.{direction}_lstm.') and kind in name)
            lstm, ending = (model.lstm, ending) if form == 'packed' else (getattr(model, f'{direction}_lstm'), '')
            getattr(lstm, f'{kind}_l0{ending}').data = weights[name]
    model.projection.weight.data = weights['projection.weight']
    model.projection.bias.data = weights['projection.bias']
    forbidden = {}
    if options.constraints:
        allowed = allowed_transitions(opened.scheme, vocabulary.tags)
        forbidden = {'transitions': ~allowed.transitions, 'start_transitions': ~allowed.start,
                     'end_transitions': ~allowed.end}
    for name in ('transitions', 'start_transitions', 'end_transitions'):
        values = weights[f'head.{name}']
        if forbidden:
            values = values.masked_fill(torch.tensor(forbidden[name]), -1e4)
        getattr(model.crf, name).data = values
    return model.eval()


def prepare(model, encoded, batch_size, generator):
    """The batches of an epoch, in random order; each batch of `Padded` has sentences of similar lengths."""
    order = generator.permutation(len(encoded.tokens))
    if isinstance(model, Padded):
        order = order[np.argsort(encoded.lengths[order], kind='stable')]
    batches = [order[first:first + batch_size] for first in range(0, len(order), batch_size)]
    return [Batch(encoded, batches[index]) for index in generator.permutation(len(batches))]


def run_epoch(model, optimizers, batches):
    """Trains for an epoch; returns the mean loss of the batches."""
    total, parameters = 0.0, list(model.parameters())
    for batch in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        sparse = model.words.weight.grad
        if sparse.is_sparse:
            # One gradient norm over all parameters, as with a dense word table; the rows of a batch are distinct.
            dense = [parameter for parameter in parameters if parameter is not model.words.weight]
            rows = sparse.coalesce()
            norm = nn.utils.get_total_norm([*(parameter.grad for parameter in dense), rows.values()])
            factor = torch.clamp(5.0 / (norm + 1e-6), max=1.0)
            for parameter in dense:
                parameter.grad.mul_(factor)
            model.words.weight.grad = rows * factor
        else:
            nn.utils.clip_grad_norm_(parameters, 5.0)
        for optimizer in optimizers:
            optimizer.step()
        total += loss.item()
    return total / len(batches)


def tag(model, encoded, names, batch_size=64, by_length=True):
    """Tags all sentences; returns a list of tag names for each sentence."""
    found = [None] * len(encoded.tokens)
    order = np.argsort(encoded.lengths, kind='stable') if by_length else np.arange(len(encoded.lengths))
    with torch.no_grad():
        for first in range(0, len(order), batch_size):
            numbers = order[first:first + batch_size]
            for number, path in zip(numbers, model.decode(Batch(encoded, numbers))):
                found[number] = [names[index] for index in path]
    return found
