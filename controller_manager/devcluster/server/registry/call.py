"""A POST that the strategy of a kind answers, with the data for the answer."""

from dataclasses import dataclass

from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.security.authentication import Tokens, User
from controller_manager.devcluster.server.security.authorization import Authorizer


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
