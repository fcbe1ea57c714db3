"""Refuses MindIR graphs that could do more than compute, before MindSpore loads them.

MindSpore runs whatever a graph names: an operator can load a library of machine code, run Python, write files or talk
to other processes. Only operators that compute tensors from tensors pass here, those of all graphs that `ms_crf.export`
writes among them. The list does not depend on the version of MindSpore.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ms_crf.base.errors import CorpusError, brief
from ms_crf.base.files import PathLike

LARGEST = 1 << 30              # bytes of weights that MindSpore puts into one file
_MOST = LARGEST + (64 << 20)   # bytes of a graph, operators included
_REFERENCE = 'REF::'            # before the name of an entry of the table of primitives, or of a function
_FIELDS = {'ModelProto': ('graph', 'functions', 'primitives'), 'PrimitiveProto': ('attribute',),
           'GraphProto': ('node', 'parameter', 'attribute'), 'NodeProto': ('attribute', 'node_attr', 'primal_attr'),
           'AttributeProto': ('t', 'tensors', 'g', 'graphs', 'values', 'seq_info'),
           'SeqInfoProto': ('tuple_elem_item',)}
LIST = Path(__file__).with_name('allowed_operators.txt')
ALLOWED = frozenset(name for line in LIST.read_text(encoding='utf-8').splitlines() if not line.startswith('#')
                    for name in line.split())


def check_operators(path: PathLike, draft: PathLike | None = None) -> None:
    """Raises CorpusError unless a file is a MindIR graph, all of it in this file, of operators that only compute.

    Args:
        path: of the graph, for messages.
        draft: the file to read if it does not have its name yet.
    """
    from mindspore.train.mind_ir_pb2 import ModelProto

    advice = 'get the graph from people you trust, or export it again'
    try:
        size = os.path.getsize(draft or path)
        if size > _MOST:
            raise CorpusError(path, None, f'expected a MindIR graph of at most {_MOST:,} bytes, got {size:,}; {advice}')
        with open(draft or path, 'rb') as file:
            model: Any = ModelProto.FromString(file.read())
    except OSError as error:
        raise CorpusError(path, None, f'can not be read: {error.strerror}') from None
    except CorpusError:
        raise
    except Exception:                            # its type depends on the version of protobuf
        raise CorpusError(path, None, 'expected a MindIR graph, got a damaged or encrypted file; copy it again, or '
                                      'export again') from None
    for part in _parts(model):
        kind = part.DESCRIPTOR.name
        if kind in ('PrimitiveProto', 'NodeProto') and not part.op_type.startswith(_REFERENCE) \
                and part.op_type not in ALLOWED:
            raise CorpusError(path, None, f'expected operators that only compute, got {brief(part.op_type)}, which is '
                                          f'not in the list {LIST.name}; {advice}')
        if kind == 'TensorProto' and part.HasField('external_data'):
            raise CorpusError(path, None, f'expected a graph with its weights in the same file, got the name of '
                                          f'another file; {advice}')
        if kind == 'GraphProto' and part.bprop_filepath or kind == 'ModelProto' and part.HasField('preprocessor'):
            raise CorpusError(path, None, f'expected a graph alone, got one that reads other files or data; {advice}')


def _parts(model: Any) -> Iterator[Any]:
    """A model and all parts of it that can name an operator or a file, wherever they are nested."""
    waiting = [model]
    while waiting:
        part = waiting.pop()
        yield part
        for field in _FIELDS.get(part.DESCRIPTOR.name, ()):
            inner = getattr(part, field)
            waiting += inner if hasattr(inner, '__len__') else [inner] if part.HasField(field) else []
