"""The handlers of a resource that use stored objects, besides its strategy.

A strategy knows one object. A handler reads and writes other objects, and so it cannot
be a method of the strategy, which the registry calls. Upstream does the same: the REST
storage of a resource has hooks (AfterCreate), and one entry for each subresource, such
as ``pods/binding`` (pkg/registry/core/rest/storage_core.go).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.rest.kind import Catalogue, Kind
from controller_manager.devcluster.apiserver.security.authentication import Tokens, User
from controller_manager.devcluster.apiserver.security.authorization import Authorizer

from .objects import AfterWrite, Objects

CUSTOM_RESOURCES: Final = "*"
"""The name under which the storage of all custom resources is registered."""


@dataclass(frozen=True, slots=True)
class Call:
    """A POST to a subresource, or of a kind whose objects are not stored.

    `name` is that of the subresource's object, empty without one.
    """

    kind: Kind
    namespace: str
    name: str
    dry_run: bool
    user: User
    objects: Objects
    tokens: Tokens
    authorizer: Authorizer


Create = Callable[[Call, JSON], JSON | None]
"""Answers a POST without storing its object; returns `None` to store it.

Raises Refusal.
"""

Connect = Callable[[Call, JSON], JSON]
"""Answers a POST to a subresource; raises Refusal."""

AfterRequest = Callable[[Kind, Objects, Catalogue], None]
"""Reacts to a request that wrote objects of a kind."""


@dataclass(frozen=True, slots=True)
class RESTStorage:
    """The handlers of one resource; a resource without special handlers has none.

    `resource` is that of the kind. `after_write` reacts to each write of an object,
    `after_request` to each request that is not a GET. `connect` has the handlers of
    subresources by their names; a POST to another subresource gets 501.
    """

    resource: str
    after_write: AfterWrite | None = None
    after_request: AfterRequest | None = None
    create: Create | None = None
    connect: Mapping[str, Connect] = field(default_factory=dict)


GENERIC: Final = RESTStorage("")
"""The storage of a resource without handlers."""
