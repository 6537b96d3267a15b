"""The file of the types: compressed parts behind an index.

The first line is the index, in JSON: for each part its first byte behind that line and
its length, and the name of the model of each kind. A part has the models of one package
of the API, such as ``io.k8s.api.apps.v1``, as JSON compressed by zlib.
"""

import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_LEVEL: Final = 9


class Index(msgspec.Struct, frozen=True):
    """The places of the parts, and the models of the kinds."""

    parts: dict[str, tuple[int, int]]
    kinds: dict[str, str]
    """By "apiVersion Kind", such as "apps/v1 Deployment"."""


def package_of(model: str) -> str:
    """Return the package of a model: its name without the last part."""
    return model.rpartition(".")[0]


def write(models: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the file of models, which are given by name."""
    packages: dict[str, dict[str, Any]] = {}
    kinds: dict[str, str] = {}
    for name, model in sorted(models.items()):
        packages.setdefault(package_of(name), {})[name] = model
        for each in model.get("group-version-kind", ()):
            group = f"{each['group']}/" if each["group"] else ""
            kinds[f"{group}{each['version']} {each['kind']}"] = name
    places, content = {}, b""
    for name, some in packages.items():
        part = zlib.compress(msgspec.json.encode(some), _LEVEL)
        places[name] = len(content), len(part)
        content += part
    return msgspec.json.encode(Index(places, kinds)) + b"\n" + content


def read_index(data: bytes) -> tuple[Index, int]:
    """Return the index of a file, and the place of the first part."""
    end = data.index(b"\n")
    return msgspec.json.decode(data[:end], type=Index), end + 1


def read_part(data: bytes, start: int, place: tuple[int, int]) -> bytes:
    """Return the JSON of a part."""
    first = start + place[0]
    return zlib.decompress(data[first : first + place[1]])
