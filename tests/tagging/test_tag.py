"""Tests the function `tag` in a program: its arguments, its results and its error messages."""

import io
import json
import sys

from ms_crf import Tagger
from ms_crf.api import suggest, tag
from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.render.tagged import TaggedText

import pytest

LINES = ['of Xan  Yel', '', 'to\tof Xor Yan', 'of']


class Notes:
    """A watcher that stores all lines and all progress that it receives."""

    def __init__(self):
        self.lines, self.done = [], []

    def say(self, text):
        self.lines.append(text)

    warn = say

    def progress(self, task, total, unit):
        self.done.append([total, unit])
        return self

    def __enter__(self):
        return self.done[-1].append

    def __exit__(self, *_):
        pass


@pytest.fixture(scope='module')
def tagger(run):
    return Tagger.load(run)


def test_tag_a_text_is_one_sentence(run, tagger):
    found = tag(LINES[0], run=run)
    assert found == tagger.tag([LINES[0].split()]) and found[0].confidence is not None
    assert (found.sentences, found.files, found.scores, found.remarks) == (1, 1, None, [])
    assert found._repr_html_() == tagger.tag([LINES[0].split()])._repr_html_()
    assert tag(LINES[0], run=run, confidence=False)[0].confidence is None


def test_tag_raw_text_has_offsets(run, tagger):
    text = 'of Xan Yel.\n\n\nto Xor Yan'
    found = tag(text, run=run, raw=True, splitter='blanks')
    assert all(isinstance(one, TaggedText) for one in found)
    assert found == tagger.tag_text(text, splitter='blanks') and found.sentences == len(found) == 2
    assert tag(input=io.StringIO(text), run=run, raw=True, splitter='blanks') == found
    assert tag(input=text.split('\n'), run=run, raw=True, splitter='blanks') == found


def test_tag_lines_are_answered_one_for_one(run, tagger, tmp_path):
    expected = tagger.tag([line.split() for line in LINES])
    (tmp_path / 'in.txt').write_text('\n'.join(LINES))
    for lines in (LINES, tuple(LINES), (line + '\r\n' for line in LINES), io.StringIO('\n'.join(LINES)),
                  tmp_path / 'in.txt', str(tmp_path / 'in.txt')):
        assert tag(input=lines, run=run) == expected
    with open(tmp_path / 'in.txt', encoding='utf-8') as file:
        assert tag(input=file, run=run) == expected
    rows = ['of O', 'Xan B-PER', '', 'to O']
    found = tag(input=rows, run=run, input_format='conll')
    assert [one.tokens for one in found] == [['of', 'Xan'], ['to']]


def test_tag_a_stream_gets_what_a_file_gets(run, tmp_path, monkeypatch):
    stream, path = io.StringIO(), tmp_path / 'out.json'
    written = tag(input=LINES, run=run, format='json', output=stream)
    tag(input=LINES, run=run, format='json', output=path)
    assert stream.getvalue() == path.read_text()
    assert [json.loads(line)['text'] for line in stream.getvalue().splitlines()] == LINES
    assert written == [] and (written.sentences, written.files) == (4, 1)


def test_tag_folders_are_returned_or_written(run, tagger, tmp_path):
    folder = tmp_path / 'texts'
    folder.mkdir()
    for name, line in zip('abc', ('of Xan', 'to Yel', 'in Zoe')):
        (folder / f'{name}.txt').write_text(line + '\n')
    assert tag(input=folder, run=run) == tagger.tag([['of', 'Xan'], ['to', 'Yel'], ['in', 'Zoe']])
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'a.txt').write_text('earlier')
    notes = Notes()
    written = tag(input=folder, run=run, output=out, watcher=notes)
    assert (written.files, written.done_before, written.sentences) == (2, 1, 2)
    assert notes.lines == [f'loading {run}'] and notes.done[0][:2] == [3, 'files'] and sum(notes.done[0][2:]) == 2
    with pytest.raises(OptionError, match='^output must name a folder if input is several files, as .*texts is$'):
        tag(input=str(folder), run=run, output=io.StringIO())


def test_tag_scores_are_in_the_result(run, corpora, tmp_path):
    scored = tag(input=corpora / 'test.tsv', run=run, score=True)
    gold = sum(line.endswith('B-PER') for line in (corpora / 'test.tsv').read_text().splitlines())
    assert scored == [] and scored.scores.result.spans.gold == gold
    assert scored.scores.lines()[0].startswith(f'processed {scored.scores.result.tokens} tokens with {gold} phrases')
    (tmp_path / 'in.jsonl').write_text('{"text": "of Xel.", "spans": [[3, 6, "PER"]]}')
    scored = tag(input=tmp_path / 'in.jsonl', run=run, score=True, splitter='blanks')
    assert scored.remarks == [f'{tmp_path}/in.jsonl: 1 span beginning or ending within a token, widened to whole '
                              "tokens; the first, at line 1: 'Xel'"]


def test_tag_bytes_that_are_not_utf8_are_told(run, tmp_path):
    path, notes = tmp_path / 'in.txt', Notes()
    path.write_bytes(b'of\nXan \xff\n')
    assert tag(input=path, run=run, watcher=notes)[1].tokens == ['Xan', '\ufffd']
    assert notes.lines[1:] == [f'{path}:2: expected UTF-8, got byte 0xff at column 5; tagged with replacement '
                               'characters']
    with pytest.raises(CorpusError, match=':2: expected UTF-8'):
        tag(input=path, run=run, strict=True)


@pytest.mark.parametrize('arguments,message', [
    ({}, 'text or input must be given, got neither'),
    ({'text': 'a', 'input': 'b'}, 'text and input name two inputs, expected one of them'),
    ({'text': 'a', 'nbest': -1}, 'nbest must be at least 0, got -1'),
    ({'text': 'a', 'nbest': 1.5}, 'nbest must be a whole number, got 1.5'),
    ({'text': 'a', 'format': 'json'}, 'format has no effect without output; omit it'),
    ({'text': 'a', 'format': 'xml'}, "format must be one of text, conll, json, html, got 'xml'"),
    ({'text': 'a', 'temperature': 2.0, 'confidence': False}, 'temperature has no effect without confidences; omit '
                                                             'it'),
    ({'text': 'a', 'unknown_tag': '?'}, 'unknown_tag has no effect without score; omit it'),
    ({'text': ['a']}, "text must be text, got ['a']"),
    ({'input': ['a'], 'score': True}, 'score needs tags in the input, got text; name a column file or JSON lines with '
                                      'input, or add input_format conll'),
    ({'input': ['a'], 'nbest': 2}, 'nbest: n-best taggings need the run of a neural network; exported '
                                   'graphs and hidden Markov models do not compute them')])
def test_tag_messages_name_arguments(run, arguments, message):
    with pytest.raises(OptionError) as error:
        tag(**arguments, run=run)
    assert str(error.value) == message


def test_tag_a_line_that_is_no_text(run):
    with pytest.raises(TypeError, match='^input must be a path or lines of text, got a line of type list$'):
        tag(input=[['of', 'Xan']], run=run)
    with pytest.raises(CorpusError, match='^lines:2: expected a JSON object: '):
        tag(input=['{"text": "of"}', 'x'], run=run, input_format='json')


def test_tag_suggestions_are_what_the_model_is_least_confident_of(run, tagger, tmp_path):
    lines = ['Xan Yan', 'of of of of', 'in Zoe Zed', 'Xan Yan', 'to']
    stream = io.StringIO()
    chosen = suggest(lines, run=run, count=2, near=1, output=stream)
    by_confidence = sorted({one.confidence: one for one in tagger.tag([line.split() for line in lines])}.items())[:2]
    assert [(one.tokens, one.tags) for one in chosen] == [(one.tokens, one.tags) for _, one in by_confidence]
    assert [one.score for one in chosen] == pytest.approx([1 - confidence for confidence, _ in by_confidence])
    assert [one.confidence for one in chosen] == pytest.approx([value for value, _ in by_confidence], abs=1e-6)
    assert (chosen.read, chosen.repeated, chosen.known, chosen.near, chosen.remarks) == (5, 1, 0, 0, [])
    assert [lines[one.document.line - 1] for one in chosen] == [one.document.text for one in chosen]
    assert [json.loads(line)['tokens'] for line in stream.getvalue().splitlines()] == [one.tokens for one in chosen]
    assert suggest(lines, run=run, count=2, near=1) == chosen
    with pytest.raises(OptionError, match='^format has no effect without output; omit it$'):
        suggest(lines, run=run, format='doccano')
    (tmp_path / 'known.tsv').write_text('to\tO\n')
    with pytest.raises(OptionError, match='^lines: expected sentences that differ from known, got none$'):
        suggest(['to'], known=[tmp_path / 'known.tsv'], run=run)


def test_tag_standard_input_is_a_stream_like_others(run, monkeypatch):
    monkeypatch.setattr(sys, 'stdin', io.StringIO('of Xan\n'))
    stream = io.StringIO('of Xan\n')
    assert tag(input=stream, run=run)[0].tokens == ['of', 'Xan']
