"""The models of kubernetes_asyncio, read from their source files.

To import the package takes a fifth of a second and 38 MB, because it imports all its
models and all its APIs. A cluster needs the fields of a few models. Each model is a
file of its own, in which a generator has written two dictionaries of literals, and a
property with a text for each field.
"""

import ast
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

_PACKAGE: Final = "kubernetes_asyncio"
_IMPORT: Final = re.compile(
    rf"^from {_PACKAGE}\.client\.models\.(\w+) import (\w+)", re.MULTILINE
)
_DICTIONARY: Final = r"^    {name} = (\{{.*?^    \}}|\{{\}})"
_GETTER: Final = re.compile(
    r'^    @property\n    def (\w+)\(self\):\n        (""".*?""")',
    re.MULTILINE | re.DOTALL,
)


class ModelField(NamedTuple):
    """One field: its name in JSON, and its type as the generator writes it."""

    attribute: str
    name: str
    type: str


@cache
def model_fields(model: str) -> tuple[ModelField, ...] | None:
    """Return the fields of a model; `None` if there is no such model."""
    if (text := _source(model)) is None:
        return None
    types = _dictionary(text, "openapi_types")
    names = _dictionary(text, "attribute_map")
    return tuple(
        ModelField(attribute, names[attribute], type_)
        for attribute, type_ in types.items()
    )


@cache
def field_texts(model: str) -> Mapping[str, str]:
    """Return the descriptions of a model's fields, by attribute."""
    text = _source(model) or ""
    return {
        attribute: _described(ast.literal_eval(literal))
        for attribute, literal in _GETTER.findall(text)
    }


def _described(documentation: str) -> str:
    """Return the paragraph of a property's text that is about the field."""
    paragraphs = documentation.split("\n\n")
    text = paragraphs[1] if len(paragraphs) > 2 else ""
    return " ".join(text.replace("# noqa: E501", "").split())


def _dictionary(text: str, name: str) -> dict[str, str]:
    found = re.search(
        _DICTIONARY.format(name=name), text, flags=re.MULTILINE | re.DOTALL
    )
    if found is None:
        msg = f"{_PACKAGE} is not as it was generated: a model has no {name}"
        raise RuntimeError(msg)
    value: dict[str, str] = ast.literal_eval(found.group(1))
    return value


def _source(model: str) -> str | None:
    """Return the source of a model; `None` if there is no such model."""
    module = _modules().get(model)
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
