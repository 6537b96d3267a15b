"""The descriptions of fields, from the source files of kubernetes_asyncio.

To import the package takes a fifth of a second and 38 MB, because it imports all its
models and all its APIs. Each model is a file of its own, in which a generator has
written a dictionary of names, and a property with a text for each field.
"""

import ast
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_PACKAGE: Final = "kubernetes_asyncio"
_IMPORT: Final = re.compile(
    rf"^from {_PACKAGE}\.client\.models\.(\w+) import (\w+)", re.MULTILINE
)
_NAMES: Final = re.compile(r"^    attribute_map = \{(.*?)\}", re.MULTILINE | re.DOTALL)
_NAME: Final = re.compile(r"'(\w+)': '([^']+)'")
_GETTER: Final = re.compile(
    r'^    @property\n    def (\w+)\(self\):\n        (""".*?""")',
    re.MULTILINE | re.DOTALL,
)


@cache
def field_descriptions(model: str) -> Mapping[str, str]:
    """Return the descriptions of a model's fields; empty without a model."""
    if (text := _source(model)) is None or (found := _NAMES.search(text)) is None:
        return {}
    names = dict(_NAME.findall(found.group(1)))
    return {
        names[attribute]: described
        for attribute, literal in _GETTER.findall(text)
        if attribute in names and (described := _description(literal))
    }


def _description(literal: str) -> str:
    """Return the paragraph of a property's text that is about the field."""
    paragraphs = literal.split("\n\n")
    if len(paragraphs) < 3:
        return ""
    text = " ".join(paragraphs[1].replace("# noqa: E501", "").split())
    return str(ast.literal_eval(f'"""{text} """')).rstrip() if "\\" in text else text


def _source(model: str) -> str | None:
    """Return the source of a model.

    A class is named after version and kind, and after the group where several groups
    have a kind of that name: ``V1Pod``, ``CoreV1Event``.
    """
    package, _, kind = model.rpartition(".")
    group, _, version = package.rpartition(".")
    name = f"{version.capitalize()}{kind}"
    modules = _modules()
    module = modules.get(f"{group.rpartition('.')[2].capitalize()}{name}")
    module = module or modules.get(name)
    if module is None:
        return None
    return (_directory() / f"{module}.py").read_text(encoding="utf-8")


@cache
def _modules() -> Mapping[str, str]:
    """Return the module of each model."""
    text = (_directory() / "__init__.py").read_text(encoding="utf-8")
    return {model: module for module, model in _IMPORT.findall(text)}


@cache
def _directory() -> Path:
    """Return where the models are; the package is found, not imported."""
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(_PACKAGE, name=_PACKAGE)
    return Path(found.submodule_search_locations[0]) / "client" / "models"
