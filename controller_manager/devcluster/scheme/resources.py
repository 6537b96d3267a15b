"""The resources of an API server 1.36, as its discovery lists them.

The server that was asked had every version and every feature gate enabled.
"""

import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec

DATA: Final = "resources.data"

_LEVEL: Final = 9


class Resource(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True
):
    """A resource or subresource: an entry of an APIResourceList.

    `group` and `version` are those of its kind, empty if they are those of the list. A
    subresource has no singular name.
    """

    name: str
    singular_name: str
    namespaced: bool
    group: str = ""
    version: str = ""
    kind: str
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""


def write(discovery: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the file of some APIResourceLists; raises msgspec.ValidationError."""
    lists = {each["groupVersion"]: each["resources"] for each in discovery}
    checked = msgspec.convert(lists, dict[str, list[Resource]])
    return zlib.compress(msgspec.json.encode(checked), _LEVEL)


def read(data: bytes) -> Mapping[str, Mapping[str, Resource]]:
    """Return the resources of a file, by group version and by name."""
    lists = msgspec.json.decode(zlib.decompress(data), type=dict[str, list[Resource]])
    return {
        group_version: {each.name: each for each in resources}
        for group_version, resources in lists.items()
    }


@cache
def built_in() -> Mapping[str, Mapping[str, Resource]]:
    """Return the resources of Kubernetes 1.36, which never change."""
    return read(files(__package__).joinpath(DATA).read_bytes())
