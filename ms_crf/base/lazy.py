"""Public names that are loaded when a program first asks for them."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def loader(module: str, names: dict[str, Any], homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a module.

    Args:
        module: its name.
        names: its `globals()`, where a name stays once it is loaded.
        homes: for each public name the module that defines it, without the package's name.
    """
    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f'module {module!r} has no attribute {name!r}')
        names[name] = getattr(importlib.import_module(f'ms_crf.{homes[name]}'), name)
        return names[name]
    return load
