"""The corpora beside the checkout, and files of a few sentences."""

from conftest import ROOT

CORPORA = ROOT.parent / 'shared' / 'data'


def write(folder, text, name='corpus.tsv'):
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file
