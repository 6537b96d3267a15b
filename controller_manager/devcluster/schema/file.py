"""The files of types: compressed parts behind an index.

The first line is the index, in JSON: for each part its first byte behind that line and
its length, and the name of the model of each kind. A part has the models of one package
of the API, such as ``io.k8s.api.apps.v1``, as JSON compressed by zlib. The file of
descriptions has texts instead of models.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

Content = TypeVar("Content")
"""The model of a name, or the descriptions of its fields."""

_LEVEL: Final = 9
_PART: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


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


class Parts(Generic[Content]):
    """The contents of a file by the names of models.

    A part is decompressed when a model of its package is first needed, and a model is
    decoded when it is first needed itself: most models of a large package never are.
    """

    def __init__(self, data: bytes, decoder: msgspec.json.Decoder[Content]) -> None:
        """Take the bytes of a file, and the decoder of a content."""
        self._data = data
        end = data.index(b"\n")
        self.index = msgspec.json.decode(data[:end], type=Index)
        self._start = end + 1
        self._decoder = decoder
        self._encoded: dict[str, dict[str, msgspec.Raw]] = {}
        self._decoded: dict[str, Content] = {}

    def of_model(self, name: str) -> Content:
        """Return the content of a model; raises KeyError for an unknown name."""
        if (found := self._decoded.get(name)) is None:
            encoded = self._package(package_of(name))[name]
            found = self._decoded[name] = self._decoder.decode(encoded)
        return found

    def names(self) -> Iterator[str]:
        """Yield the names of all models."""
        for package in self.index.parts:
            yield from self._package(package)

    def _package(self, name: str) -> dict[str, msgspec.Raw]:
        """Return the contents of a package; raises KeyError for an unknown one."""
        if (found := self._encoded.get(name)) is None:
            offset, length = self.index.parts[name]
            first = self._start + offset
            part = zlib.decompress(self._data[first : first + length])
            found = self._encoded[name] = _PART.decode(part)
        return found
