"""Fuzzing of annotated files for benchmarks/fuzz.py: reading, converting between all formats, and damaged files.

Results are compared with the examples that the files were written from, by code that is independent of the package.
"""

import json
from pathlib import Path

from ms_crf.base.errors import CorpusError, OptionError
from ms_crf.formats import conversion
from ms_crf.formats.document import Target
from ms_crf.text.splitting import splitter_named

from fuzz_examples import MARKS, NAMES, OF_SPANS, OF_TAGS, Example, clean, partial, spans_of, tags_of, wild, write
from fuzz_material import check
from mutations import bytes_of, record_of

FORMATS = [*OF_SPANS, *OF_TAGS]
WITH_JUDGED = ['doccano', 'prodigy', 'spacy']
RANGES = (b'# newdoc id = a\n1-2\tal\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n1\ta\t_\tADP\t_\t_\t_\t_\t_\t_\n'
          b'2\tel\t_\tDET\t_\t_\t_\t_\t_\tNER=B-X\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n')


def read(path, kind, mark='?'):
    return conversion.read(path, kind, lambda _: None, mark=mark)


def joined(examples):
    """(text, spans) of all examples joined to one text, with line feeds between the examples."""
    spans, offset = [], 0
    for text, own in examples:
        spans += [(start + offset, end + offset, kind) for start, end, kind in own]
        offset += len(text) + 1
    return '\n'.join(text for text, _ in examples), sorted(spans)


def spans_in(document):
    """The spans of a document as sorted (start, end, type)."""
    return sorted((span.start, span.end, span.type) for span in document.spans)


def content(source):
    """(text, spans) of all documents of a source, joined to one text."""
    examples = []
    for document in source.documents:
        spans = [(span.start, span.end, span.type) for span in document.spans]
        for sentence in document.sentences or ():
            spans += spans_of(sentence.tags, sentence.offsets)
        examples.append((document.text, spans))
    return joined(examples)


def widened(example, tokens):
    """Returns spans of whole tokens by the documented rules: of overlapping spans the longest, then the first."""
    spans, taken = [], set()
    for start, end, kind in sorted(example.spans, key=lambda span: (span[0] - span[1], span[0])):
        inside = [token for token in tokens if token[0] < end and start < token[1]]
        if inside and example.text[start:end].strip() and not taken & set(inside):
            taken |= set(inside)
            spans.append((inside[0][0], inside[-1][1], kind))
    return sorted(spans)


class Documents:
    """Cases of annotated files.

    Args:
        material: writes the input files.
    """

    refusals = CorpusError, OptionError

    def __init__(self, material):
        self.material = material
        valid = [self.read_tool_file, self.convert_pair, self.convert_pair, self.convert_partial_tags,
                 self.convert_judged, self.convert_spans, self.convert_to_tags]
        self.cases = [*valid, self.convert_damaged, self.convert_damaged]
        self.never_refused = {case.__name__ for case in valid}

    def convert(self, source, kind, splitter='blanks', mark='?'):
        """Converts a source to a format; returns the path of the new file. A refused conversion must write nothing."""
        path = self.material.case / ('to/' + NAMES.get(kind, 'brat' if kind == 'brat' else 'a.jsonl'))
        path.parent.mkdir(parents=True, exist_ok=True)
        before = sorted(path.parent.iterdir())
        try:
            conversion.write(source, Target(kind, splitter_named(splitter), mark=mark), str(path),
                             lambda _: None)
        except self.refusals:
            check(sorted(path.parent.iterdir()) == before, 'a conversion that was refused has changed its folder')
            raise
        return str(path)

    def _expect(self, actual, expected, what):
        check(actual == expected, f'{what}: {actual!r:.400} for {expected!r:.400}')

    def read_tool_file(self, rng):
        kind, examples = rng.choice(FORMATS), [clean(rng) for _ in range(rng.randint(1, 4))]
        source = read(write(rng, self.material, kind, examples), kind)
        self._expect(content(source), joined([example[:2] for example in examples]), kind)

    def convert_pair(self, rng):
        """Converts any format to any format; text and spans must stay the same."""
        kind, other, examples = rng.choice(FORMATS), rng.choice(FORMATS), [clean(rng) for _ in range(rng.randint(1, 3))]
        source = read(write(rng, self.material, kind, examples), kind)
        self._expect(content(read(self.convert(source, other), other)), joined([example[:2] for example in examples]),
                     f'{kind} to {other}')

    def convert_spans(self, rng):
        """Converts random text with random spans between formats of spans; text and spans must stay the same.

        Line ends at the ends of a span are ignored for brat, which does not write them.
        """
        kind, other = rng.choice(list(OF_SPANS)), rng.choice(list(OF_SPANS))
        examples = [wild(rng) for _ in range(rng.randint(1, 3))]
        source = read(write(rng, self.material, kind, examples), kind)
        expected = [(example.text, sorted(example.spans)) for example in examples]
        for each, what in ((source, kind), (read(self.convert(source, other), other), f'{kind} to {other}')):
            actual = [(document.text, spans_in(document)) for document in each.documents]
            if 'brat' in what:
                actual, expected = map(self._without_line_ends, (actual, expected))
            self._expect(actual, expected, what)

    @staticmethod
    def _without_line_ends(examples):
        stripped = []
        for text, spans in examples:
            own = []
            for start, end, kind in spans:
                held = text[start:end]
                if held.strip('\r\n'):
                    start, end = start + len(held) - len(held.lstrip('\r\n')), start + len(held.rstrip('\r\n'))
                own.append((start, end, kind))
            stripped.append((text, sorted(own)))
        return stripped

    def convert_to_tags(self, rng):
        """Converts random text with random spans to tokens and tags, and checks them against the documented rules.

        Another conversion must not change the result.
        """
        kind, splitter, example = rng.choice(WITH_JUDGED), rng.choice(['blanks', 'characters', 'spacy-en']), wild(rng)
        source = read(write(rng, self.material, kind, [example._replace(judged=None)]), kind)
        tokens = [token for sentence in splitter_named(splitter).split(example.text) for token in sentence.offsets]
        for other in ('tokens', rng.choice(list(OF_TAGS))):
            path = self.convert(source, other, splitter)
            if not tokens:
                continue
            back = read(path, other)
            sentences = [sentence for document in back.documents for sentence in document.sentences]
            self._expect([token for sentence in sentences for token in sentence.tokens],
                         [example.text[start:end] for start, end in tokens], f'tokens of {other}')
            tags = [tag for sentence in sentences for tag in sentence.tags]
            self._expect(sorted(spans_of(tags, tokens)), widened(example, tokens), f'spans of {other}')
            data = Path(path).read_bytes()
            self._expect(Path(self.convert(back, other, splitter)).read_bytes(), data, f'{other} written once more')

    def convert_partial_tags(self, rng):
        """Converts partly unknown tags between formats of tags; all tags must stay the same."""
        kind, other, example = rng.choice(list(OF_TAGS)), rng.choice(list(OF_TAGS)), clean(rng)
        # In a file of spaces, '# XX' before the first row of a sentence is a comment.
        mark = '?' if any(line.split(' ')[0] == '#' for line in example.text.split('\n')) else rng.choice(MARKS)
        tags = [partial(rng, own, mark) for own in tags_of(example, rng.choice(['BIO', 'BIOES']))]
        source = read(write(rng, self.material, kind, [example], [tags]), kind, mark)
        back = read(self.convert(source, other, mark=mark), other, mark)
        for each, what in ((source, kind), (back, f'{kind} to {other}')):
            actual = [[tag.replace('\0', mark) for tag in sentence.tags] for document in each.documents
                      for sentence in document.sentences]
            self._expect(actual, tags, f'tags of {what}')
        third = rng.choice(list(OF_SPANS))
        read(self.convert(source, third, mark=mark), third)

    def convert_judged(self, rng):
        """Converts partially annotated texts: tokens without annotation become unknown tags, and all spans are kept."""
        kind, other, example = rng.choice(WITH_JUDGED), rng.choice(WITH_JUDGED), clean(rng)
        places = [place for sentence in example.sentences for place in sentence]
        judged = [(rng.choice(places)[0], len(example.text))] * rng.randint(0, 1)
        judged += [place for place in places if rng.random() < 0.3]
        source = read(write(rng, self.material, kind, [example._replace(judged=judged)]), kind)
        [document] = read(self.convert(source, other), other).documents
        self._expect((document.text, spans_in(document), document.annotated),
                     (example.text, sorted(example.spans), judged), f'{kind} to {other}')
        path = self.convert(source, 'tokens')
        tags = [tag for line in Path(path).read_text().splitlines() for tag in json.loads(line)['tags']]
        known = [any(start <= place[0] and place[1] <= end for start, end, *_ in (*judged, *example.spans))
                 for place in places]
        self._expect([tag is not None for tag in tags], known, 'known tags')
        back = read(self.convert(read(path, 'tokens'), other), other)
        self._expect(content(back), joined([example[:2]]), f'{kind} to tokens to {other}')

    def convert_damaged(self, rng):
        """Reads and converts damaged files of all formats, which may also be refused."""
        kind, examples = rng.choice(FORMATS), [rng.choice([clean, wild])(rng) for _ in range(2)]
        if kind in OF_TAGS:
            examples = [clean(rng), Example('al el', [(0, 2, 'X')], [[(0, 2), (3, 5)]])]
        path = Path(write(rng, self.material, kind, examples))
        damaged = rng.choice(sorted(path.iterdir())) if path.is_dir() else path
        data = damaged.read_bytes()
        if kind == 'conllu':
            data += RANGES
        lines = data.splitlines()
        if kind in (*WITH_JUDGED, 'label-studio', 'tokens') and rng.random() < 0.7:
            number = rng.randrange(len(lines))
            try:
                lines[number] = record_of(rng, json.loads(lines[number]))
            except ValueError:                           # the line is part of a JSON array that spans many lines
                lines[number] = bytes_of(rng, lines[number])
            damaged.write_bytes(b'\n'.join(lines))
        else:
            damaged.write_bytes(bytes_of(rng, data))
        source = read(str(path), kind)
        other = rng.choice(FORMATS)
        if source.scheme != 'plain':
            read(self.convert(source, other, rng.choice(['blanks', 'characters'])), other)
