"""The descriptions of the fields of the API.

The schema of an API server has none. They come from the models of kubernetes_asyncio,
which a generator made from upstream's OpenAPI document; the tool of this package writes
them into a file, so that a cluster need not import that package.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from .file import Parts, write

DATA: Final = "descriptions.data"

_TEXTS: Final = msgspec.json.Decoder(dict[str, str])
_NOTE: Final = "# noqa: E501"


def field_descriptions(model: str) -> Mapping[str, str]:
    """Return the descriptions of a model's fields; empty without a model."""
    try:
        return _built_in().of_model(model)
    except KeyError:
        return {}


@cache
def _built_in() -> Parts[dict[str, str]]:
    """Return the descriptions of Kubernetes 1.36, which never change."""
    return Parts(files(__package__).joinpath(DATA).read_bytes(), _TEXTS)


def collect(models: Iterable[str], classes: Any) -> bytes:
    """Return the file of the descriptions of some models.

    `classes` is the module ``kubernetes_asyncio.client.models``. A class is named after
    version and kind, and after the group where several groups have a kind of that name:
    ``V1Pod``, ``CoreV1Event``.
    """
    found = {name: _of_class(_find(name, classes)) for name in models}
    return write({name: texts for name, texts in found.items() if texts})


def _find(model: str, classes: Any) -> Any:
    package, _, kind = model.rpartition(".")
    group, _, version = package.rpartition(".")
    name = f"{version.capitalize()}{kind}"
    of_group = f"{group.rpartition('.')[2].capitalize()}{name}"
    return getattr(classes, of_group, None) or getattr(classes, name, None)


def _of_class(class_: Any) -> dict[str, str]:
    """Return the descriptions of a class: those of its properties."""
    if class_ is None:
        return {}
    names: Mapping[str, str] = class_.attribute_map
    texts = {
        field: _description(getattr(class_, attribute).__doc__ or "")
        for attribute, field in names.items()
    }
    return {field: text for field, text in texts.items() if text}


def _description(docstring: str) -> str:
    """Return the paragraph of a property's docstring that is about the field."""
    paragraphs = docstring.split("\n\n")
    if len(paragraphs) < 3:
        return ""
    return " ".join(paragraphs[1].replace(_NOTE, "").split())
