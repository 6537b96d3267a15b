"""The objects to explain, as a user names them."""

from collections.abc import Sequence

from msgspec import Struct

from controller_manager.api.meta import AnyResource
from controller_manager.client.discovery.resources import ServedResource

from .kinds import known_kind
from .view import Unread, View


class TargetError(ValueError):
    """A target that cannot be understood; the message is one line with the remedy."""


class Target(Struct, frozen=True):
    """A kind and a name, as they were given; all objects of the kind without a name."""

    kind: str
    name: str


def parse_target(words: tuple[str, ...]) -> Target:
    """Return the target of ``KIND/NAME`` or ``KIND NAME``; raises TargetError."""
    found = parse_words(words)
    if len(found) != 1 or not found[0].name:
        raise _not_understood(" ".join(words))
    return found[0]


def parse_words(words: Sequence[str]) -> Sequence[Target]:
    """Return the targets of words as kubectl understands them; raises TargetError.

    ``KIND/NAME ...``, ``KIND[,KIND...]`` and ``KIND[,KIND...] NAME ...`` are known.
    """
    if any("/" in each for each in words):
        pairs = [tuple(each.split("/")) for each in words]
        for pair, word in zip(pairs, words, strict=True):
            if len(pair) != 2 or not all(pair):  # noqa: PLR2004 - a kind and a name
                raise _not_understood(word)
        return [Target(kind, name) for kind, name in pairs]
    kinds = words[0].split(",")
    if not all(kinds) or not all(words):
        raise _not_understood(" ".join(words))
    names = words[1:] or ("",)
    return [Target(kind, name) for kind in kinds for name in names]


def _not_understood(text: str) -> TargetError:
    msg = f"{text!a} is not KIND/NAME; write for example deploy/web"
    return TargetError(msg)


async def resource_of(view: View, kind: str) -> AnyResource:
    """Return the resource of a kind that a user has named.

    Raises TargetError for an unknown kind, and Unread if the kinds cannot be read.

    A kind that has no explanation of its own is looked up in the discovery of the API
    server, by its plural, its singular, its kind or a short name.
    """
    if (known := known_kind(kind)) is not None:
        return known
    name, _, group = kind.lower().partition(".")
    discovery = await view.discovery()
    for each in discovery.resources:
        groups = ("", each.group, f"{each.version}.{each.group}")
        if name and name in _words(each) and group in groups:
            # An explanation reads the fields of one version.
            return known_kind(each.group_resource) or each.metadata_resource()
    if view.unread:
        raise Unread(view.unread[0])
    if problem := discovery.problem():
        raise Unread(problem)
    msg = f'the server doesn\'t have a resource type "{kind}"'
    raise TargetError(msg)


def _words(served: ServedResource) -> Sequence[str]:
    """Return the words for a resource, in lower case."""
    return (
        served.plural,
        served.singular,
        served.kind.lower(),
        *served.short_names,
    )
