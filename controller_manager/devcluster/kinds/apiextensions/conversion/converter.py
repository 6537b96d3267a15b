"""Converts the objects of one version of a definition, from and to the stored version.

A conversion that waits for the webhook raises Pending; the next attempt finds the
answer.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.apiextensions.custom_resource_strategy import (
    CustomResourceStrategy,
)
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.server.rest.answers import Answers, Pending
from controller_manager.devcluster.server.storage import Stored

from .metadata import restored
from .webhook import ConversionWebhook

_UNSENT: Final = ("managedFields", "resourceVersion")
"""Metadata on which no answer depends: it is restored after each conversion."""


class Converted(Stored):
    """An object that was converted after it was read."""

    __slots__ = ()


class Versions(Struct, frozen=True):
    """All versions of a definition, served or not, by their apiVersion."""

    strategies: Mapping[str, CustomResourceStrategy]
    stored: str
    """The apiVersion in which objects are stored."""

    list_kind: str
    webhook: ConversionWebhook

    def strategy(self, api_version: str) -> CustomResourceStrategy:
        """Return the strategy of a version; raises Refusal for an unknown one."""
        if (found := self.strategies.get(api_version)) is not None:
            return found
        why = f"request to convert CR from an invalid group/version: {api_version}"
        raise Refusal(500, "", why)


class WebhookConverter(Struct, frozen=True):
    """Converts objects of the version `api_version`; `answers` has those so far."""

    versions: Versions
    api_version: str
    answers: Answers | None = None
    """Those of one request; without a request, nothing can be converted."""

    def within(self, answers: Answers) -> "WebhookConverter":
        """Return the same converter for one request, which keeps its answers."""
        return replace(self, answers=answers)

    def is_current(self, obj: JSON) -> bool:
        """Tell whether an object is stored in the version of today."""
        return bool(obj["apiVersion"] == self.versions.stored)

    def shown(self, stored: Stored) -> Stored:
        """Return a stored object in this version; raises Refusal and Pending."""
        return self._shown([stored], "")[0]

    def all_shown(self, found: Sequence[Stored]) -> list[Stored]:
        """Return the items of a list in this version, converted by one call.

        Raises Refusal and Pending.
        """
        return self._shown(found, self.versions.list_kind)

    def kept(self, obj: JSON) -> JSON:
        """Return an object of this version as it is stored, with the defaults.

        Raises Refusal and Pending.
        """
        target = self.versions.stored
        if obj["apiVersion"] == target:
            return obj
        (found,) = self._answered([obj], target, "")
        strategy = self.versions.strategy(target)
        kept = strategy.without_unknown(restored(obj, found))
        strategy.apply_defaults(kept)
        return kept

    def _shown(self, found: Sequence[Stored], list_kind: str) -> list[Stored]:
        read = [self._read(each) for each in found]
        wanted = self.api_version
        given = [each.obj for each in read if each.obj["apiVersion"] != wanted]
        answered = iter(self._answered(given, wanted, list_kind) if given else ())
        strategy = self.versions.strategies[wanted]
        return [
            each
            if each.obj["apiVersion"] == wanted
            else Converted(
                strategy.without_unknown(restored(each.obj, next(answered))),
                each.version,
            )
            for each in read
        ]

    def _read(self, stored: Stored) -> Stored:
        """Return an object as its own version shows it: pruned, with defaults."""
        if isinstance(stored, Converted):
            return stored
        strategy = self.versions.strategy(stored.obj["apiVersion"])
        shown = strategy.shown(stored)
        return stored if shown is stored.obj else Stored(shown, stored.version)

    def _answered(
        self, objects: Sequence[JSON], target: str, list_kind: str
    ) -> list[JSON]:
        """Return the webhook's answers for objects; raises Pending without them."""
        memory = self.answers
        assert memory is not None  # noqa: S101 - each request calls `within`
        sent = [_sent(each) for each in objects]
        keys = [(target, _key(each)) for each in sent]
        answers = [memory.recall(key) for key in keys]
        if all(each is not None for each in answers):
            return answers

        async def ask() -> None:
            found = await self.versions.webhook.converted(sent, target, list_kind)
            for key, answer in zip(keys, found, strict=True):
                memory.remember(key, answer)

        raise Pending(ask)


def _sent(obj: JSON) -> JSON:
    """Return an object as it is stored in etcd, without its resourceVersion."""
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    return {**obj, "metadata": metadata}


def _key(obj: JSON) -> bytes:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _UNSENT}
    return msgspec.json.encode({**obj, "metadata": metadata}, order="deterministic")
