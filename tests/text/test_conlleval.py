"""Compares tables of scores with the rules of conlleval.

`Script` repeats the rules of the script of 2000, line by line.
"""

import random

from ms_crf.text.metrics import Scores, score, table

import pytest


class Script:
    """The rules of conlleval.pl: it counts while it reads rows, and formats the table."""

    def __init__(self, gold, predicted):
        self.tokens = self.correct_tags = 0
        self.correct, self.found_correct, self.found_guessed = {}, {}, {}
        in_correct = False
        last_correct, last_correct_type, last_guessed, last_guessed_type = 'O', '', 'O', ''
        for correct, guessed in self.rows(gold, predicted):
            boundary = correct is None
            correct, correct_type = self.split('O' if boundary else correct)
            guessed, guessed_type = self.split('O' if boundary else guessed)
            ends_correct = self.ends(last_correct, correct, last_correct_type, correct_type)
            ends_guessed = self.ends(last_guessed, guessed, last_guessed_type, guessed_type)
            if in_correct:
                if ends_correct and ends_guessed and last_guessed_type == last_correct_type:
                    in_correct = False
                    self.count(self.correct, last_correct_type)
                elif ends_correct != ends_guessed or guessed_type != correct_type:
                    in_correct = False
            starts_correct = self.starts(last_correct, correct, last_correct_type, correct_type)
            starts_guessed = self.starts(last_guessed, guessed, last_guessed_type, guessed_type)
            if starts_correct and starts_guessed and guessed_type == correct_type:
                in_correct = True
            if starts_correct:
                self.count(self.found_correct, correct_type)
            if starts_guessed:
                self.count(self.found_guessed, guessed_type)
            if not boundary:
                self.correct_tags += correct == guessed and guessed_type == correct_type
                self.tokens += 1
            last_correct, last_correct_type, last_guessed, last_guessed_type = (
                correct, correct_type, guessed, guessed_type)

    @staticmethod
    def rows(gold, predicted):
        for tags, found in zip(gold, predicted):
            yield from zip(tags, found)
            yield None, None

    @staticmethod
    def split(tag):
        prefix, dash, kind = tag.partition('-')
        return (prefix, kind) if dash else (tag, '')

    @staticmethod
    def count(counts, kind):
        counts[kind] = counts.get(kind, 0) + 1

    @staticmethod
    def ends(before, tag, before_type, kind):
        pairs = ('BB', 'BO', 'IB', 'IO', 'EE', 'EI', 'EO')
        return before + tag in pairs or (before not in 'O.' and before_type != kind)

    @staticmethod
    def starts(before, tag, before_type, kind):
        pairs = ('BB', 'IB', 'OB', 'OI', 'EE', 'EI', 'OE')
        return before + tag in pairs or (tag not in 'O.' and before_type != kind)

    def lines(self):
        def rates(correct, guessed, gold):
            precision = 100 * correct / guessed if guessed else 0
            recall = 100 * correct / gold if gold else 0
            f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0
            return 'precision: %6.2f%%; recall: %6.2f%%; FB1: %6.2f' % (precision, recall, f1)  # noqa: UP031

        correct, guessed, gold = (sum(counts.values())
                                  for counts in (self.correct, self.found_guessed, self.found_correct))
        yield (f'processed {self.tokens} tokens with {gold} phrases; found: {guessed} phrases; correct: {correct}.')
        accuracy = 100 * self.correct_tags / self.tokens
        yield 'accuracy: %6.2f%%; ' % accuracy + rates(correct, guessed, gold)  # noqa: UP031
        for kind in sorted(kind for kind in {*self.found_correct, *self.found_guessed} if kind):
            counts = [each.get(kind, 0) for each in (self.correct, self.found_guessed, self.found_correct)]
            yield '%17s: ' % kind + rates(*counts) + f'  {counts[1]}'  # noqa: UP031


def random_corpus(rng, tags):
    gold = [rng.choices(tags, k=rng.randint(1, 9)) for _ in range(30)]
    return gold, [[tag if rng.random() < 0.6 else rng.choice(tags) for tag in row] for row in gold]


@pytest.mark.parametrize('tags', [
    ['O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC'], ['O', 'B', 'I'], ['O', 'B-X', 'I-X', 'B', 'I'], ['O', 'B-a-b', 'I-a-b']])
def test_conlleval_tables_are_those_of_the_script(tags):
    """Compares tables for random tags with the script; most of the tag sequences are invalid."""
    rng = random.Random(0)
    for _ in range(100):
        gold, predicted = random_corpus(rng, tags)
        expected = list(Script(gold, predicted).lines())
        assert table(score(gold, predicted, 'BIO')) == expected
        scores = Scores('BIO', 'BIO', 'x')
        for first in (0, 10):                                    # in two parts
            scores.add(range(20), gold[first:first * 2 + 10], predicted[first:first * 2 + 10])
        assert scores.lines()[:len(expected)] == expected


def test_conlleval_ties_are_rounded_as_the_script_does():
    for correct in range(161):
        gold, predicted = ['O'] * 160, ['O'] * correct + ['I'] * (160 - correct)
        assert table(score([gold], [predicted], 'BIO')) == list(Script([gold], [predicted]).lines())
    assert '14.38%' in table(score([['O'] * 160], [['O'] * 23 + ['I'] * 137], 'BIO'))[1]


def lines_of(found, trained, gold, predicted):
    scores = Scores(found, trained, 'x')
    scores.add(range(len(gold)), [tags.split() for tags in gold], [tags.split() for tags in predicted])
    return scores.lines()


def test_conlleval_both_accuracies_are_told_where_they_differ():
    """Checks that both accuracies are shown if they differ.

    The first accuracy compares the original tags, as conlleval does. The second accuracy compares the same spans after
    conversion to one scheme.
    """
    same = ['B-X I-X O O', 'O B-Y']
    assert lines_of('BIO', 'BIO', same, same)[1].startswith('accuracy: 100.00%;') and len(
        lines_of('BIO', 'BIO', same, same)) == 4
    lines = lines_of('BIO', 'BIO', ['I-X I-X O O'], ['B-X I-X O O'])               # invalid gold tags
    assert lines[1].startswith('accuracy:  75.00%; precision: 100.00%')
    assert lines[-1] == 'accuracy of the same spans, all written in BIO: 100.00%'
    lines = lines_of('IOB1', 'BIO', ['I-X I-X O O'], ['B-X I-X O O'])
    assert lines[1].startswith('accuracy: 100.00%; precision: 100.00%')
    assert lines[-1] == 'accuracy as conlleval computes it, of unconverted tags: 75.00%'
    lines = lines_of('BIO', 'BIOES', ['B-X I-X O O'], ['B-X E-X O O'])
    assert lines[1].startswith('accuracy: 100.00%') and lines[-1].endswith('unconverted tags: 75.00%')
    assert len(lines_of('plain', 'plain', ['NOUN VERB'], ['NOUN ADJ'])) == 5
