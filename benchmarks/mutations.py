"""Damages files and values: flipped bytes, moved lines, JSON with invalid values."""

import copy
import json
import random

NUMBERS = [*'-1 0 1 2 1e308 1e309 NaN -Infinity 4294967297 1000000000 0.5 -0 true null'.split(), '9' * 5000]
VALUES = [None, True, False, -1, 0, 1, 2, 7, 10 ** 9, 10 ** 12, 10 ** 19, 2 ** 63, 0.5, 1e300, float('nan'),
          float('inf'), '', 'O', 'B-PER', 'B', 'x' * 5000, '\ud800', 'a\tb', 'a\nb', 'a\0b', '../..', '/dev/null',
          [], {}, [[]], [None], ['O', 'O'], {'a': 1}, [1, 2]]
PIECES = [b'\0', b'\t', b'\n', b'\n\n', b'\r', b'\r\n', b' ', b'\xff', b'\xc3', b'\xed\xa0\x80', b'\xef\xbb\xbf',
          b'\xe3\x80\x80', b'\xc2\xa0', b'\xe2\x80\xa8', b'# text = a b\n', b'-DOCSTART-\n', b'O', b'B-PER', b'I-',
          b'-', b'"', b'[', b'{', b'}', b']', b',', b':', b'[' * 5000, b'{"a":' * 3000, b'0' * 3000, b'x' * 100_000]


def bytes_of(rng, data):
    """A copy of the data with one to four random changes."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(data))
        to = min(len(data), at + rng.choice([1, 2, 10, 100, 2000]))
        kind = rng.randrange(7)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:to]
        elif kind == 2:
            data[at:at] = data[at:to]
        elif kind == 3:
            data[at:at] = rng.choice(PIECES)
        elif kind == 4:
            data[at:to] = rng.randbytes(to - at)
        elif kind == 5:
            lines = bytes(data).split(b'\n')
            rng.shuffle(lines)
            data = bytearray(b'\n'.join(lines))
        else:
            del data[at:]
    return bytes(data)


def record_of(rng, record):
    """JSON text of a record with random changes: replaced values, missing or renamed keys, numbers of many digits."""
    record = json.loads(json.dumps(record))
    for _ in range(rng.randint(1, 3)):
        places = list(_places(record))
        if not places:
            break
        holder, key = rng.choice(places)
        kind = rng.randrange(5)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(['', 'x', str(key).upper(), '\ud800', str(key) + ' '])] = holder.pop(key)
        elif kind == 2 and isinstance(holder, list):
            holder.insert(rng.randint(0, len(holder)), copy.deepcopy(rng.choice([*holder, *VALUES])))
        else:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
    text = json.dumps(record, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.15:  # a number that Python itself does not write
        places = [place for place, character in enumerate(text) if character in '0123456789']
        if places:
            at = rng.choice(places)
            text = text[:at] + rng.choice(NUMBERS) + text[at + 1 :]
    if rng.random() < 0.05:
        text = '[' * 20_000 + text
    return text.encode('utf-8', 'surrogatepass')


def _places(record):
    """(container, key) of all values in a record; only the first 20 items of a list are included."""
    if isinstance(record, dict):
        items = list(record.items())
    elif isinstance(record, list):
        items = list(enumerate(record))[:20]
    else:
        items = []
    for key, value in items:
        yield record, key
        yield from _places(value)


def value_of(rng):
    """A random value that a caller could pass by mistake."""
    return rng.choice([*VALUES, random.Random(rng.random()), object(), b'bytes', range(3), (1, 2), {1, 2}])
