"""Error messages are one short line of printable characters, whatever the file or the option contains."""

import pickle

from ms_crf.base.errors import LONGEST, CorpusError, NoRun, OptionError, argument, brief
from ms_crf.runs.directory import PathExists

import pytest


@pytest.mark.parametrize('text,shown', [
    ('expected UTF-8, got É and 中', 'expected UTF-8, got É and 中'),
    ('got a\nb\tc\x00', r'got a\nb\tc\x00'),
    ('half a pair \ud800', r'half a pair \ud800'),
    ('a line\u2028that ends', r'a line\u2028that ends'),
])
def test_errors_one_line(text, shown):
    assert str(OptionError(text)) == shown
    assert str(CorpusError('a\nb', 3, text)) == rf'a\nb:3: {shown}'


def test_errors_a_long_message_keeps_both_ends():
    message = str(CorpusError('file', None, f'expected a word, got {"x" * 9999}; omit it'))
    assert message.startswith('file: expected a word, got x') and message.endswith('x; omit it')
    assert len(message) < LONGEST + 20


@pytest.mark.parametrize('value,shown', [
    ('B-PER', "'B-PER'"), ('a\ud800', r"'a\ud800'"), (10 ** 5000, 'a number of 5001 digits'),
    ([10 ** 5000], 'a list that cannot be shown'), ('x' * 9999, f"'{'x' * 59}... (10,001 characters)"),
], ids=['text', 'surrogate', 'number', 'numbers', 'long'])
def test_errors_a_value_is_shown_in_brief(value, shown):
    assert brief(value) == shown


@pytest.mark.parametrize('error', [
    CorpusError('a.tsv', 3, 'expected a tag'), NoRun('runs', None, 'none yet'), OptionError(f'{argument("hidden")} 7'),
    PathExists('run', 'expected a folder', True)], ids=lambda error: type(error).__name__)
def test_errors_go_from_one_process_to_another(error):
    """Errors survive pickling, because multiprocessing and training workers send errors to another process."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error) and str(copy) == str(error) and vars(copy) == vars(error)
