"""Messages are one line of a length that can be read, whatever stands in the file or the option."""

from ms_crf.errors import LONGEST, CorpusError, OptionError

import pytest


@pytest.mark.parametrize('text,shown', [
    ('expected UTF-8, got É and 中', 'expected UTF-8, got É and 中'),
    ('got a\nb\tc\x00', r'got a\nb\tc\x00'),
    ('half a pair \ud800', r'half a pair \ud800'),
    ('a line\u2028that ends', r'a line\u2028that ends'),
])
def test_one_line(text, shown):
    assert str(OptionError(text)) == shown
    assert str(CorpusError('a\nb', 3, text)) == rf'a\nb:3: {shown}'


def test_a_long_message_keeps_both_ends():
    message = str(CorpusError('file', None, f'expected a word, got {"x" * 9999}; leave it away'))
    assert message.startswith('file: expected a word, got x') and message.endswith('x; leave it away')
    assert len(message) < LONGEST + 20
