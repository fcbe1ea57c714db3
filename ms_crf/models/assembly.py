"""The networks of a run directory."""

from dataclasses import replace
from pathlib import Path

from ms_crf.models.encoder.network import EncodedTagger, PieceTagger
from ms_crf.models.words.network import TaggerNetwork
from ms_crf.nn.transformer import Encoder
from ms_crf.runs import records
from ms_crf.text.schemes import PLAIN, allowed_transitions

import mindspore as ms


def _constraints(options, tags, scheme):
    if options.head == 'crf' and options.constraints and scheme != PLAIN:
        return allowed_transitions(scheme, tags)
    return None


def build_network(options, vocabulary, word_dim, scheme):
    """The network of a run over words; its weights are random until they are loaded."""
    network = TaggerNetwork(vocabulary.num_words, word_dim, len(vocabulary.tags), options.hidden, options.layers,
                            options.char, vocabulary.num_characters, options.char_dim, options.char_width,
                            options.head, _constraints(options, vocabulary.tags, scheme))
    if options.precision == 'mixed':
        for cell in (network.layers, *([network.characters] if options.char != 'none' else [])):
            cell.to_float(ms.float16)
    return network


def build_piece_network(options, vocabulary, width, scheme):
    """The network of a run over an encoder whose vectors have this width; its weights are random."""
    layers = options.layers if options.encoder_lstm else 0
    network = PieceTagger(width, len(vocabulary.tags), options.encoder_lstm, layers, options.head,
                          _constraints(options, vocabulary.tags, scheme))
    if options.precision == 'mixed':
        network.layers.to_float(ms.float16)
    return network


def build_encoder(sizes, weights=None):
    """The `Encoder` of `Sizes`, with what `EncoderFiles.weights` gave, if anything."""
    encoder = Encoder(**sizes._asdict())
    for parameter in encoder.get_parameters() if weights else ():
        parameter.set_data(ms.Tensor(weights[parameter.name]))
    return encoder


def load_network(folder, options, vocabulary, word_dim, scheme):
    """The network with the weights of the best epoch, in 32 bits however it was trained.

    Raises:
        CorpusError: the weights are damaged or don't fit.
    """
    network = build_network(replace(options, precision='float32'), vocabulary, word_dim, scheme)
    _load_weights(folder, network)
    return network


def load_encoded(folder, options, vocabulary, files, scheme):
    """An `EncodedTagger` likewise, from a run over an encoder with these `EncoderFiles`."""
    tagger = build_piece_network(replace(options, precision='float32'), vocabulary, files.sizes.width, scheme)
    if options.encoder_lr > 0:
        network = EncodedTagger(build_encoder(files.sizes), tagger)
        _load_weights(folder, network)
        return network
    _load_weights(folder, tagger)
    return EncodedTagger(build_encoder(files.sizes, files.weights()), tagger)


def _load_weights(folder, network):
    path = Path(folder) / records.WEIGHTS
    arrays = records.read_tensors(path)
    parameters = network.trainable_params()
    records.check_fit(path, arrays, {parameter.name: parameter.shape for parameter in parameters})
    for parameter in parameters:
        parameter.set_data(ms.Tensor(arrays[parameter.name]))
