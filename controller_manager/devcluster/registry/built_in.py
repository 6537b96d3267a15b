"""Kinds as the discovery of a Kubernetes 1.36 server describes them.

And the objects that the API server creates itself: their manifests and their uids.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import Conversion, Kind, Subresource
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.models import Resource, built_in_resources
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.options.gates import Gate

Replace = Callable[[JSON, JSON], JSON]
Validate = Callable[[JSON, JSON], Sequence[Cause]]

_GENERIC: Final = Strategy()


def kind_of(  # noqa: PLR0913 - the facts of a resource, given by name
    group_version: str,
    plural: str,
    strategy: Strategy = _GENERIC,
    *,
    replace: Mapping[str, Replace] | None = None,
    validate: Mapping[str, Validate] | None = None,
    refusals: Mapping[str, str] = MappingProxyType({}),
    conversion: Conversion | None = None,
    other_versions: tuple[str, ...] = (),
    deprecation: str = "",
    gated: tuple[tuple[Gate, Strategy], ...] = (),
) -> Kind:
    """Return the kind of a resource of Kubernetes, with its subresources.

    `replace` and `validate` have the functions of subresources, by their names, and
    `refusals` the messages of those that are not served. Raises KeyError for a resource
    that Kubernetes 1.36 does not have.
    """
    group, _, version = group_version.rpartition("/")
    resources = built_in_resources()[group_version]
    found = resources[plural]
    below = (each for name, each in resources.items() if name.startswith(f"{plural}/"))
    return Kind(
        group,
        version,
        found.kind,
        plural,
        namespaced=found.namespaced,
        short_names=found.short_names,
        categories=found.categories,
        subresources=tuple(
            _subresource(each, replace or {}, validate or {}, refusals)
            for each in below
        ),
        verbs=found.verbs,
        strategy=strategy,
        singular_name=found.singular_name,
        conversion=conversion,
        other_versions=other_versions,
        deprecation=deprecation,
        gated=gated,
        storage_version_hash=found.storage_version_hash,
    )


def _subresource(
    found: Resource,
    replace: Mapping[str, Replace],
    validate: Mapping[str, Validate],
    refusals: Mapping[str, str],
) -> Subresource:
    name = found.name.partition("/")[2]
    return Subresource(
        name,
        found.kind,
        found.verbs,
        found.group,
        found.version,
        replace=replace.get(name),
        validate=validate.get(name),
        takes_path=name == "proxy",
        refusal=refusals.get(name, ""),
    )


# Objects that the API server creates itself

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def bootstrap_manifest(name: str) -> tuple[JSON, ...]:
    """Return the objects in a file of this package; callers do not change them."""
    text = (resources.files(__package__) / name).read_text(encoding="utf-8")
    return tuple(yaml.load_all(text, _LOADER))


@lru_cache(maxsize=1024)
def fixed_uid(seed: str) -> str:
    """Return a uid that follows from `seed`.

    It is not random, so the random sequence of a cluster begins with the objects of
    users.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, seed))
