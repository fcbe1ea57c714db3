"""`Tagger.load` refuses graphs with operators that run foreign code, before MindSpore loads these graphs."""

import shutil
import subprocess

from ms_crf import Tagger
from ms_crf.base.errors import CorpusError
from ms_crf.models import mindir
from ms_crf.models.graph_record import read_record, record_of, replace_pair
from ms_crf.models.mindir import check_operators

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops
from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto

LIBRARY = """
#include <cstdint>
#include <cstdio>
__attribute__((constructor)) static void when_loaded() { std::fclose(std::fopen("LOADED", "w")); }
extern "C" int same(int, void **tensors, int *, int64_t **shapes, const char **, void *, void *) {
  for (int64_t i = 0; i < shapes[0][0]; i++) static_cast<float *>(tensors[1])[i] = static_cast<float *>(tensors[0])[i];
  return 0;
}
"""


@pytest.fixture(scope='module')
def graph(run_of, exported):
    """The path of an exported graph with a record."""
    return exported(run_of(head='softmax'))


@pytest.fixture
def edited(graph, tmp_path):
    """A function that changes the graph, writes the changed graph with a valid record, and returns its path."""
    def edit(change):
        model = ModelProto.FromString(graph.read_bytes())
        change(model)
        (tmp_path / 'draft').write_bytes(model.SerializeToString())
        path = tmp_path / 'a.mindir'
        record = {key: value for key, value in read_record(graph)[0].items()
                  if key not in ('sha256', 'record_sha256')}
        replace_pair(path, tmp_path / 'draft', record)
        return path
    return edit


def refused(path):
    with pytest.raises(CorpusError) as raised:
        Tagger.load(path)
    message = str(raised.value)
    assert message.startswith(f'{path}: expected ') and len(message.splitlines()) == 1
    return message


@pytest.mark.slow
def test_graph_operators_a_graph_of_this_project_passes(graph):
    check_operators(graph)
    assert Tagger.load(graph).tag([['of', 'Xan']])[0].tags


class Own(nn.Cell):
    def __init__(self, library):
        super().__init__()
        self.own = ops.Custom(f'{library}:same', lambda shape: shape, lambda kind: kind, func_type='aot')

    def construct(self, tensor):
        return self.own(tensor) + 1


def test_graph_operators_a_library_of_machine_code(graph, tmp_path):
    """A graph that loads a shared library is refused, and the library is never loaded.

    The library creates the file LOADED when it is loaded.
    """
    compiler = shutil.which('c++')
    if compiler is None:
        pytest.skip('no C++ compiler')
    (tmp_path / 'own.cc').write_text(LIBRARY.replace('LOADED', str(tmp_path / 'LOADED')))
    library = tmp_path / 'own.so'
    subprocess.run([compiler, '-shared', '-fPIC', '-o', library, tmp_path / 'own.cc'], check=True, timeout=100)
    draft, path = tmp_path / 'own.mindir', tmp_path / 'a.mindir'
    tensor = ms.Tensor(np.ones(3, np.float32))
    ms.export(Own(library), tensor, file_name=str(draft), file_format='MINDIR')
    (tmp_path / 'LOADED').unlink(missing_ok=True)
    shutil.copy(record_of(graph), record_of(path))
    shutil.copy(draft, path)
    record = read_record(graph)[0]
    replace_pair(path, tmp_path / 'own.mindir', {key: value for key, value in record.items()
                                                 if key not in ('sha256', 'record_sha256')})
    assert "got 'Custom'" in refused(path) and not (tmp_path / 'LOADED').exists()


def rename(model):
    next(one for one in model.primitives if one.op_type == 'Add').op_type = 'PyExecute'


def in_a_function(model):
    model.functions.add().node.add().op_type = 'PyFunc'


def in_an_attribute(model):
    attribute = model.graph.node[0].attribute.add(type=AttributeProto.TUPLE)
    attribute.values.add().g.node.add().op_type = 'Custom'


def elsewhere(model):
    model.graph.parameter[0].external_data.location = '/etc/hostname'


@pytest.mark.parametrize('change,message', [
    (rename, "got 'PyExecute'"), (in_a_function, "got 'PyFunc'"), (in_an_attribute, "got 'Custom'"),
    (elsewhere, 'expected a graph with its weights in the same file'),
    (lambda model: model.graph.__setattr__('bprop_filepath', 'x'), 'expected a graph alone'),
    (lambda model: model.preprocessor.SetInParent(), 'expected a graph alone')])
def test_graph_operators_edited_graphs(edited, change, message):
    assert message in refused(edited(change))


def test_graph_operators_no_graph_and_too_large_a_file(tmp_path, monkeypatch):
    path = tmp_path / 'a.mindir'
    path.write_bytes(b'\xff' * 100)
    with pytest.raises(CorpusError, match='expected a MindIR graph, got a damaged or encrypted file'):
        check_operators(path)
    monkeypatch.setattr(mindir, '_MOST', 99)
    with pytest.raises(CorpusError, match='expected a MindIR graph of at most 99 bytes, got 100'):
        check_operators(path)
