"""A POST that a kind answers itself, and what it may use to do so."""

from dataclasses import dataclass

from controller_manager.devcluster.server.authentication import Tokens, User
from controller_manager.devcluster.server.authorization import Authorizer
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.objects import Objects


@dataclass(frozen=True, slots=True)
class Call:
    """A request to a subresource, or of a kind that is answered and not stored.

    `name` is that of the object whose subresource it is, empty without one.
    """

    kind: Kind
    namespace: str
    name: str
    dry_run: bool
    user: User
    objects: Objects
    tokens: Tokens
    authorizer: Authorizer
