"""The network of a run directory."""

from dataclasses import replace
from pathlib import Path

from ms_crf import run_folder
from ms_crf.constraints import allowed_transitions
from ms_crf.network import TaggerNetwork
from ms_crf.spans import PLAIN

import mindspore as ms


def build_network(options, vocabulary, word_dim, scheme):
    """The network of a run; its weights are random until they are loaded."""
    constraints = None
    if options.head == 'crf' and options.constraints and scheme != PLAIN:
        constraints = allowed_transitions(scheme, vocabulary.tags)
    network = TaggerNetwork(vocabulary.num_words, word_dim, len(vocabulary.tags), options.hidden, options.layers,
                            options.char, vocabulary.num_characters, options.char_dim, options.char_width,
                            options.head, constraints)
    if options.precision == 'mixed':
        for cell in (network.layers, *([network.characters] if options.char != 'none' else [])):
            cell.to_float(ms.float16)
    return network


def load_network(folder, options, vocabulary, word_dim, scheme):
    """The network with the weights of the best epoch, in 32 bits however it was trained.

    Raises:
        CorpusError: the weights are damaged or don't fit.
    """
    network = build_network(replace(options, precision='float32'), vocabulary, word_dim, scheme)
    path = Path(folder) / run_folder.WEIGHTS
    arrays = run_folder.read_tensors(path)
    parameters = network.trainable_params()
    run_folder.check_fit(path, arrays, {parameter.name: parameter.shape for parameter in parameters})
    for parameter in parameters:
        parameter.set_data(ms.Tensor(arrays[parameter.name]))
    return network
