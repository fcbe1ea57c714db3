"""The rings of the package: a folder's ring stands in its docstring, and nothing reaches outwards from an inner one."""

import ast
import functools
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
    """Names of modules in import statements, and of what is imported from them, which may be modules too."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f'{node.module}.{alias.name}' for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@functools.cache
def ring(name):
    """The number in the docstring of the folder that a module lies in; None at the top of the package."""
    folder = name if name in FOLDERS else name.rpartition('.')[0]
    if folder in ('ms_crf', ''):
        return None
    return int(re.match(r'Ring (\d): ', ast.get_docstring(tree(folder))).group(1))


def for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == 'TYPE_CHECKING'


def running(name):
    """All nodes of a module; of the package itself without those that are only there for type checkers."""
    waiting = [tree(name)]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if name != 'ms_crf' or not for_type_checkers(child)]


def reached(name):
    """All modules of the package that a module imports, anywhere in its text, and those that these import."""
    seen, waiting = set(), [name]
    while waiting:
        for module in imported(running(waiting.pop())):
            if module in MODULES and module not in seen:
                seen.add(module)
                waiting.append(module)
    return seen


@pytest.mark.parametrize('name', [name for name in MODULES if ring(name) is not None])
def test_nothing_reaches_an_outer_ring(name):
    """Modules at the top of the package have no ring of their own: what they reach is reached through them."""
    outer = sorted(other for other in reached(name) if (ring(other) or 0) > ring(name))
    assert not outer, f'{name} (ring {ring(name)}) reaches {", ".join(outer)}'


def test_every_folder_says_what_lives_in_it_and_what_it_may_know():
    assert [ring(folder) for folder in ('ms_crf.crf', 'ms_crf.nn', 'ms_crf.text')] == [1, 2, 3]
    for folder in FOLDERS:
        text = ast.get_docstring(tree(folder))
        assert ring(folder) and ' know' in text and len(re.findall(r'\.(?:\s|$)', text)) == 2, folder
        assert len(tree(folder).body) == 1, f'{folder} imports something'


def test_editors_see_the_public_names_where_they_are_loaded_from():
    block = next(node for node in tree('ms_crf').body if for_type_checkers(node))
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == {name: f'ms_crf.{home}' for name, home in ms_crf._HOMES.items()}
    assert sorted(seen) == ms_crf.__all__ == sorted(ms_crf.__all__)


def at_import(name):
    """All modules that are imported with a module, those of other packages too."""
    seen, waiting = set(), [name]
    while waiting:
        for found in imported(node for node in tree(waiting.pop()).body):
            if found not in seen:
                seen.add(found)
                if found in MODULES:
                    waiting.append(found)
    return {found.partition('.')[0] for found in seen}


@pytest.mark.parametrize('name', [name for name in MODULES if name.startswith(('ms_crf.text', 'ms_crf.models.hmm'))])
def test_text_and_the_hidden_markov_model_need_no_mindspore(name):
    assert 'mindspore' not in at_import(name)


def test_no_kind_of_model_knows_another():
    kinds = [folder for folder in FOLDERS if folder.startswith('ms_crf.models.')]
    assert len(kinds) == 3
    for name in MODULES:
        for kind in kinds:
            if name.startswith(f'{kind}.'):
                direct = set(imported(ast.walk(tree(name))))
                others = [other for other in direct if any(other.startswith(f'{o}.') for o in kinds if o != kind)]
                assert not others, f'{name} imports {others}'


def test_messages_of_the_library_name_no_options_of_commands():
    """What raises an error knows its arguments; commands translate. Names of values in a style sheet are no options."""
    library = tuple(f'ms_crf.{folder}' for folder in ('crf', 'nn', 'text', 'runs', 'training', 'tagger', 'environment'))
    for name in MODULES:
        if name.startswith(library):
            texts = [node.value for node in ast.walk(tree(name)) if isinstance(node, ast.Constant)]
            named = [text for text in texts if isinstance(text, str) and re.search(r'(?<![{(;])--[a-z]', text)]
            assert not named, f'{name}: {named}'


@pytest.mark.parametrize('name', MODULES)
def test_modules_and_functions_can_be_read_at_once(name):
    assert len(MODULES[name].read_text(encoding='utf-8').splitlines()) <= 350
    long = {node.name: length for node in ast.walk(tree(name)) if isinstance(node, ast.FunctionDef)
            and (length := node.end_lineno - node.lineno + 1) > 60}
    assert not long, f'{name} has functions of more than 60 lines: {long}'
