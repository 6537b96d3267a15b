"""The object to explain, as a user names it."""

from msgspec import Struct

from controller_manager.api.resource import AnyResource
from controller_manager.explain.kinds import SHORT_NAMES, known_kind
from controller_manager.explain.view import Unread, View


class TargetError(ValueError):
    """A target that cannot be understood; the message is one line with the remedy."""


class Target(Struct, frozen=True):
    """A kind and a name, as they were given."""

    kind: str
    name: str


def parse_target(words: tuple[str, ...]) -> Target:
    """Return the target of ``KIND/NAME`` or ``KIND NAME``; raises TargetError."""
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004 - a kind and a name
        msg = f"{' '.join(words)!a} is not KIND/NAME; write for example deploy/web"
        raise TargetError(msg)
    return Target(parts[0], parts[1])


async def resource_of(view: View, target: Target) -> AnyResource:
    """Return the resource of a target's kind.

    Raises TargetError for an unknown kind, and Unread if the kinds cannot be read.

    Kinds that have no explanation of their own are looked up in the discovery of the
    API server: their deletion can be explained.
    """
    if (known := known_kind(target.kind)) is not None:
        return known
    name, _, group = target.kind.lower().partition(".")
    discovery = await view.discovery()
    for each in discovery.resources:
        groups = ("", each.group, f"{each.version}.{each.group}")
        if name in (each.plural, each.kind.lower()) and group in groups:
            return each.metadata_resource()
    if view.unread:
        raise Unread(view.unread[0])
    if problem := discovery.problem():
        raise Unread(problem)
    known_words = ", ".join(sorted(SHORT_NAMES))
    msg = (
        f"the API server has no kind {target.kind!a}; write it as in kubectl "
        f"api-resources, or one of {known_words}"
    )
    raise TargetError(msg)
