"""Tests `infer.py --format html`.

The command writes each sentence as soon as it arrives, shows the n best taggings, and leaves no partial page in a file.
"""

import re
import subprocess
import sys

from ms_crf import Tagger
from ms_crf.cli import infer

import pytest

from support.paths import ROOT

ALTERNATIVE = re.compile(r'^<li>([\d.]+)<p class="text other" dir="auto">(.*)</p></li>$', re.M)
MARK = re.compile(r'<mark [^>]*>(.*?)<bdi class="note">(.*?)</bdi>(?:<bdi.*?</bdi>)?</mark>')


def test_infer_html_sentences_are_written_as_they_come(hmm):
    lines = ['of Xan Yel', '', 'to of Xor Yan']
    with subprocess.Popen([sys.executable, str(ROOT / 'infer.py'), '--run', str(hmm), '--format', 'html'], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tagging:
        head = ''
        while '<div lang="">' not in head:
            head += tagging.stdout.readline()
        for line in lines:
            tagging.stdin.write(line + '\n')
            tagging.stdin.flush()
            found = tagging.stdout.readline()                    # while standard input is still open
            assert MARK.sub(r'\1', found).startswith(f'<p class="text" dir="auto">{line}<')
        tagging.stdin.close()
        assert tagging.stdout.read() == '</div>\n</main>\n</body>\n</html>\n'
        assert (tagging.wait(60), tagging.stderr.read()) == (0, '')
    assert head.startswith('<!DOCTYPE html>') and '<title>Tagged text</title>' in head


def test_infer_html_a_fault_leaves_the_page_as_it_was(hmm, tmp_path, capsys):
    source, path = tmp_path / 'in.jsonl', tmp_path / 'out.html'
    source.write_text('{"text": "of Xan"}\nx\n')
    path.write_text('before')
    assert infer.main(['--run', str(hmm), '--input', str(source), '--format', 'html', '--output', str(path)]) == 2
    assert capsys.readouterr().err.startswith(f'infer.py: {source}:2: expected a JSON object')
    assert path.read_text() == 'before' and len(list(tmp_path.glob('*.*'))) == 2


def test_infer_html_results_are_lists_that_notebooks_show_in_colour(hmm):
    tagger, text = Tagger.load(str(hmm)), 'of Xan Yel'
    for results in (tagger.tag([text.split()] * 3), tagger.tag_text(f'{text}\n' * 3, splitter='blanks')):
        assert isinstance(results, list) and results == list(results) and len(results) == 3
        shown = results._repr_html_()
        assert shown.count('>PER ') == shown.count('background:') == 3 and shown.count(results[0]._repr_html_()) == 3
    assert '_repr_html_' not in dir(list(tagger.tag([text.split()])))


@pytest.mark.slow
def test_infer_html_the_likeliest_taggings_are_those_of_the_tagger(undisturbed, tmp_path, capsys):
    run, text = str(undisturbed[0]), 'of Xan Yel'
    expected = Tagger.load(run).tag([text.split()], nbest=3)[0]
    assert infer.main(['--run', run, '--text', text, '--format', 'html', '--nbest', '3']) == 0
    found = ALTERNATIVE.findall(capsys.readouterr().out)
    assert [float(confidence) for confidence, _ in found] == [
        pytest.approx(other.confidence, abs=6e-5) for other in expected.alternatives]
    for (_, marked), other in zip(found, expected.alternatives, strict=True):
        assert MARK.sub(r'\1', marked) == text
        tokens = [token for name, kind in MARK.findall(marked) for token in name.split()]
        assert tokens == [token for token, tag in zip(text.split(), other.tags) if tag != 'O']
        assert {kind for _, kind in MARK.findall(marked)} <= {'PER'}
