"""Kinds as the discovery of a Kubernetes 1.36 server describes them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.schema.resources import Resource, built_in
from controller_manager.devcluster.server.rest.kind import (
    Conversion,
    Kind,
    Subresource,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.options.gates import Gate

Replace = Callable[[JSON, JSON], JSON]

_GENERIC: Final = Strategy()
_ONLY_CREATE: Final = ("create",)
"""The verbs of a subresource that takes an object of its own."""

_LONG_MODELS: Final = MappingProxyType(
    {
        ("", "Event"): "CoreV1Event",
        ("events.k8s.io", "Event"): "EventsV1Event",
        ("resource.k8s.io", "ResourceClaim"): "ResourceV1ResourceClaim",
        ("authentication.k8s.io", "TokenRequest"): "AuthenticationV1TokenRequest",
    }
)
"""The types that have their group in their name in kubernetes_asyncio.

Another group has a type of the same name.
"""


def kind_of(
    group_version: str,
    plural: str,
    strategy: Strategy = _GENERIC,
    *,
    replace: Mapping[str, Replace] | None = None,
    conversion: Conversion | None = None,
    other_versions: tuple[str, ...] = (),
    deprecation: str = "",
    gated: tuple[tuple[Gate, Strategy], ...] = (),
) -> Kind:
    """Return the kind of a resource of Kubernetes, with its subresources.

    `replace` has the functions of subresources, by their names. Raises KeyError for a
    resource that Kubernetes 1.36 does not have.
    """
    group, _, version = group_version.rpartition("/")
    resources = built_in()[group_version]
    found = resources[plural]
    below = (each for name, each in resources.items() if name.startswith(f"{plural}/"))
    return Kind(
        group,
        version,
        found.kind,
        plural,
        namespaced=found.namespaced,
        model=_model(group, version, found.kind),
        short_names=found.short_names,
        categories=found.categories,
        subresources=tuple(
            _subresource(each, group_version, replace or {}) for each in below
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
    group_version: str,
    replace: Mapping[str, Replace],
) -> Subresource:
    name = found.name.partition("/")[2]
    group, _, version = group_version.rpartition("/")
    if found.version:
        group, version = found.group, found.version
    return Subresource(
        name,
        found.kind,
        found.verbs,
        found.group,
        found.version,
        replace=replace.get(name),
        model=_model(group, version, found.kind) if found.verbs == _ONLY_CREATE else "",
        takes_path=name == "proxy",
    )


def _model(group: str, version: str, kind: str) -> str:
    """Return the name of a type in kubernetes_asyncio."""
    return _LONG_MODELS.get((group, kind)) or f"{version.capitalize()}{kind}"
