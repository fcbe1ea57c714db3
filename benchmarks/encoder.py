"""Times an encoder's forward against transformers: python benchmarks/encoder.py --encoder DIR --input FILE

Both read the same sentences of a column file, with the same ids and the default threads of their framework. PyTorch
gets batches of 32 sentences, sorted by length and padded to the longest. ms_crf packs the sentences into rows of few
lengths, and each length is compiled. Each framework runs in a separate process. Calls with all sentences alternate. The
vectors are compared before the timing.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ms_crf.formats.registry import read_corpus  # noqa: E402
from ms_crf.models.encoder.pretrained import EncoderFiles  # noqa: E402
from ms_crf.models.encoder.windows import Subwords  # noqa: E402

import numpy as np  # noqa: E402
from contestants import ask, processor, start, stop  # noqa: E402

ROWS = 32


def ours(files, encoded):
    """A function without arguments that computes the vectors of all pieces with ms_crf."""
    from ms_crf.models.encoder.learner import Reader
    from ms_crf.models.encoder.model_type import build_encoder

    reader = Reader(build_encoder(files.sizes, files.weights()))
    return lambda: reader.vectors(encoded)


def peer(files, encoded):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.AutoModel.from_pretrained(files.path).eval()
    order = np.argsort(encoded.window_lengths, kind='stable')

    @torch.inference_mode()
    def read():
        table = np.zeros((len(encoded.ids), files.sizes.width), np.float32)
        for first in range(0, len(order), ROWS):
            numbers = order[first:first + ROWS]
            length = encoded.window_lengths[numbers].max()
            ids, lengths = encoded.window_batch(numbers, len(numbers), length)
            mask = torch.arange(length) < torch.from_numpy(lengths)[:, None]
            found = model(input_ids=torch.from_numpy(ids).long(), attention_mask=mask.long()).last_hidden_state.numpy()
            for vectors, (begin, _, first_piece, last) in zip(found, encoded.windows[numbers].tolist()):
                table[first_piece:last] = vectors[1 + first_piece - begin:1 + last - begin]
        return table
    return read


CONTESTANTS = {'ms_crf': ours, 'transformers': peer}


def serve(name, arguments):
    """Runs as a contestant: reads 'check FILE' and 'time' lines, and answers each with a line of numbers."""
    files = EncoderFiles(arguments.encoder)
    sentences = [sentence.tokens for sentence in read_corpus(arguments.input)]
    encoded = Subwords(sentences, files.tokenizer, files.sizes.longest)
    read = CONTESTANTS[name](files, encoded)
    for line in sys.stdin:
        order, *words = line.split()
        began = time.perf_counter()
        table = read()
        seconds = time.perf_counter() - began
        if order == 'check':
            np.save(words[0], table)
        print(seconds, len(sentences), len(encoded.ids), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--encoder', required=True)
    parser.add_argument('--input', required=True)
    parser.add_argument('--rounds', type=int, default=7, help='measured rounds (default: %(default)s)')
    parser.add_argument('--contestant', choices=CONTESTANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contestant:
        serve(arguments.contestant, arguments)
        return
    processes = {name: start(name, *sys.argv[1:]) for name in CONTESTANTS}
    with tempfile.TemporaryDirectory() as folder:
        first, tables = {}, []
        for name, process in processes.items():
            first[name], sentences, pieces = ask(process, 'check', f'{folder}/{name}.npy')
            tables.append(np.load(f'{folder}/{name}.npy'))
            time.sleep(0.2)
    difference = np.abs(tables[0] - tables[1]).max()
    assert difference <= 2e-5, f'the vectors differ by {difference}'
    seconds = {name: [] for name in CONTESTANTS}
    for _ in range(1 + arguments.rounds):
        for name, process in processes.items():
            seconds[name].append(ask(process, 'time')[0])
            time.sleep(0.2)                      # until the threads of this process have stopped spinning
    stop(processes)
    print(f'{processor()}, {os.cpu_count()} cores; {sentences:.0f} sentences, {pieces:.0f} pieces; {arguments.rounds} '
          f'turns each; largest difference {difference:.1g}\n')
    print('| | sentences/s, median (least–most) | first time, with compilation, s |\n|---|---|---|')
    for name, found in seconds.items():
        rates = sentences / np.array(found[1:])
        print(f'| {name} | {np.median(rates):,.0f} ({rates.min():,.0f}–{rates.max():,.0f}) | {first[name]:.1f} |')
    ours_, theirs = (np.median(found[1:]) for found in seconds.values())
    print(f'\nours takes {ours_ / theirs:.2f} of the time of transformers')


if __name__ == '__main__':
    main()
