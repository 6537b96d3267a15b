"""A POST that the strategy of a kind answers, with the data for the answer."""

from dataclasses import dataclass

from controller_manager.devcluster.server.authentication import Tokens, User
from controller_manager.devcluster.server.authorization import Authorizer
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.objects import Objects


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
