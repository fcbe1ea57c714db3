"""Modules outside of models/ do not name single model types, except the table of model types."""

import ast
import functools
from pathlib import Path

import ms_crf
from ms_crf.runs import model_types

import pytest

PACKAGE = Path(ms_crf.__file__).parent
OUTSIDE = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob('*.py'))
           if path.relative_to(PACKAGE).parts[0] != 'models']
# Modules in which the name of a model type means something else, or is an option of the user.
ALLOWED = {
    'runs/model_types.py': 'the table of model types',
    'runs/options.py': 'the option --encoder',
    'runs/records.py': 'the name of the folder of a run that holds the files of its encoder',
    'runs/checksums.py': 'the item of config.json that names this folder, which may be moved',
}
KINDS = ('bilstm', 'encoder', 'hmm')


@functools.cache
def tree_of(path):
    return ast.parse((PACKAGE / path).read_text(encoding='utf-8'))


def constants(path):
    """The line and text of each string of a module, except docstrings."""
    tree = tree_of(path)
    docstrings = {id(node.body[0].value) for node in ast.walk(tree)
                  if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
                  and isinstance(node.body[0], ast.Expr)}
    return [(node.lineno, node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings]


def names(path):
    """The line and text of each name of a model type in a module."""
    return [(line, text) for line, text in constants(path) if text in KINDS]


def test_kinds_these_are_the_kinds_of_the_package():
    assert all(model_types.TYPES[name].load().name == name for name in KINDS)
    table = (PACKAGE / 'runs' / 'model_types.py').read_text(encoding='utf-8')
    assert table.count("'ms_crf.models.") == len(KINDS)


def test_kinds_no_module_outside_names_a_kind():
    named = {path: names(path) for path in OUTSIDE if path not in ALLOWED}
    assert {path: found for path, found in named.items() if found} == {}, 'ask the kind for what it offers'


@pytest.mark.parametrize('path', sorted(ALLOWED))
def test_kinds_what_is_allowed_is_needed(path):
    assert names(path)


def test_kinds_what_kinds_share_names_none():
    shared = [path.relative_to(PACKAGE).as_posix() for path in sorted((PACKAGE / 'models').glob('*.py'))]
    assert not {path for path in shared if names(path)}


def test_kinds_no_class_of_a_kind_is_named_outside_of_its_folder():
    classes = {node.name for path in (PACKAGE / 'models').glob('*/*.py')
               for node in ast.parse(path.read_text(encoding='utf-8')).body if isinstance(node, ast.ClassDef)
               if not node.name.startswith('_')}
    classes -= {'HMM'}                             # a public name, which the package exports
    shared = [f'models/{path.name}' for path in (PACKAGE / 'models').glob('*.py')]
    for path in [*OUTSIDE, *shared]:
        words = {node.id for node in ast.walk(tree_of(path)) if isinstance(node, ast.Name)}
        assert not words & classes, f'{path} knows {words & classes}'
