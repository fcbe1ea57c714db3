"""The layers of the package: a folder's docstring names its layer, and no module imports from an outer layer."""

import ast
import functools
import graphlib
import importlib
import re
from pathlib import Path

import ms_crf

import pytest

PACKAGE = Path(ms_crf.__file__).parent
MODULES = {'.'.join(path.relative_to(PACKAGE.parent).with_suffix('').parts).removesuffix('.__init__'): path
           for path in sorted(PACKAGE.rglob('*.py'))}
FOLDERS = [name for name, path in MODULES.items() if path.name == '__init__.py' and name != 'ms_crf']


@functools.cache
def tree(name):
    return ast.parse(MODULES[name].read_text(encoding='utf-8'))


def imported(nodes):
    """The modules in import statements, and the names imported from them, which may also be modules."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f'{node.module}.{alias.name}' for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


#: modules at the top of the package and their layers: the functions of the commands (`api`), the interface for
#: extensions (`extend`), and entry points that keep names of earlier versions
TOP = {'ms_crf': 13, 'ms_crf.__main__': 13, 'ms_crf.export': 13, 'ms_crf.compare': 13,
       'ms_crf.api': 11, 'ms_crf.extend': 11, 'ms_crf.environment': 0}


@functools.cache
def layer(name):
    """The layer of a module: the number in the docstring of its folder."""
    folder = name if name in FOLDERS else name.rpartition('.')[0]
    return TOP[name] if name in TOP else int(re.match(r'Layer (\d+): ', ast.get_docstring(tree(folder))).group(1))


def for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'


def test_layers_no_module_imports_an_outer_layer():
    """All imports count, also imports inside functions."""
    outer = [f'{name} (layer {layer(name)}) imports {other} (layer {layer(other)})'
             for name in MODULES for other in sorted({*imported(ast.walk(tree(name)))} & MODULES.keys())
             if layer(other) > layer(name)]
    assert not outer, '; '.join(outer)


def test_layers_every_folder_says_what_lives_in_it_and_what_it_may_know():
    assert [layer(folder) for folder in ('ms_crf.base', 'ms_crf.crf', 'ms_crf.cli')] == [0, 2, 12]
    for folder in FOLDERS:
        text = ast.get_docstring(tree(folder))
        assert ' know' in text and len(re.findall(r'\.(?:\s|$)', text)) == 2, folder
        assert len(tree(folder).body) == 1, f'{folder} imports something'


@pytest.mark.parametrize('name', ['ms_crf', 'ms_crf.api', 'ms_crf.extend'])
def test_layers_lazy_names_are_declared_for_editors(name):
    module = importlib.import_module(name)
    block = next(node for node in tree(name).body if for_type_checkers(node))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == {name: f'ms_crf.{home}' for name, home in module._MODULES.items()}
    assert sorted(seen) == module.__all__ == sorted(module.__all__)
    for public in seen:
        assert getattr(module, public) is getattr(importlib.import_module(seen[public]), public)


def at_import(name):
    """The top-level packages that the import of a module loads, directly or through other modules of ms_crf."""
    seen, waiting = set(), [name]
    while waiting:
        for found in imported(node for node in tree(waiting.pop()).body):
            if found not in seen:
                seen.add(found)
                if found in MODULES:
                    waiting.append(found)
    return {found.partition('.')[0] for found in seen}


def test_layers_modules_of_training_import_each_other_in_one_direction():
    """The import graph of `ms_crf.training` has no cycle; imports inside functions count, too."""
    modules = [name for name in MODULES if name.startswith('ms_crf.training.')]
    graph = {name: {other for other in imported(ast.walk(tree(name))) if other in modules} for name in modules}
    assert graph['ms_crf.training.course'] >= {'ms_crf.training.trainer', 'ms_crf.training.scores'}
    assert set(graphlib.TopologicalSorter(graph).static_order()) == set(modules)     # raises CycleError


def test_layers_text_and_the_hidden_markov_model_need_no_mindspore():
    names = [name for name in MODULES if name.startswith(('ms_crf.text', 'ms_crf.models.hmm'))]
    assert names and not [name for name in names if 'mindspore' in at_import(name)]


def test_layers_no_kind_of_model_knows_another():
    kinds = [folder for folder in FOLDERS if folder.startswith('ms_crf.models.')]
    assert len(kinds) == 3
    for name in MODULES:
        for kind in kinds:
            if name.startswith(f'{kind}.'):
                direct = set(imported(ast.walk(tree(name))))
                others = [other for other in direct if any(other.startswith(f'{o}.') for o in kinds if o != kind)]
                assert not others, f'{name} imports {others}'


@pytest.mark.parametrize('folder', ['base', 'crf', 'nn', 'text', 'formats', 'render', 'runs', 'models', 'training',
                                    'tagging', 'reports', 'experiments', 'bulk', 'server'])
def test_layers_messages_of_the_library_name_no_options_of_commands(folder):
    """Library errors name arguments; only the commands translate them to options.

    Strings that begin with dashes (words of a command line) and CSS variables are not messages.
    """
    for name in MODULES:
        if name.startswith(f'ms_crf.{folder}.'):
            texts = [node.value for node in ast.walk(tree(name)) if isinstance(node, ast.Constant)]
            named = [text for text in texts if isinstance(text, str)
                     and re.search(r'[^{(;]--[a-z]', text.partition('ray start')[0])]
            assert not named, f'{name}: {named}'


LINES, COMMAND_LINES, FUNCTION_LINES, MOST_MODULES = 330, 120, 60, 249
#: modules of `cli` that are not commands but are shared by several commands
SHARED_BY_COMMANDS = {f'ms_crf.cli.{name}' for name in ('console', 'parser', 'terminal')}


def test_layers_modules_and_functions_can_be_read_at_once():
    lengths = {name: len(path.read_text(encoding='utf-8').splitlines()) for name, path in MODULES.items()}
    long = {name: length for name, length in lengths.items() if length > LINES}
    assert not long, f'modules of more than {LINES} lines: {long}'
    commands = {name: length for name, length in lengths.items() if name.startswith('ms_crf.cli.')
                and name not in SHARED_BY_COMMANDS}
    assert len(commands) >= 10
    long = {name: length for name, length in commands.items() if length > COMMAND_LINES}
    assert not long, f'commands of more than {COMMAND_LINES} lines: {long}'
    long = {f'{name}.{node.name}': length for name in MODULES for node in ast.walk(tree(name))
            if isinstance(node, ast.FunctionDef) and (length := node.end_lineno - node.lineno + 1) > FUNCTION_LINES}
    assert not long, f'functions of more than {FUNCTION_LINES} lines: {long}'


def test_layers_the_number_of_modules_is_bounded():
    assert len(MODULES) <= MOST_MODULES
