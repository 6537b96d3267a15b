"""The webhooks of all configurations, in the order of the calls."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage import Collection


class Hook(Struct, frozen=True):
    """One webhook of a configuration; `config` is the webhook's JSON.

    `identity` stays the same while the configuration does not change.
    """

    configuration: str
    identity: tuple[str, str, str, int]
    config: JSON

    @property
    def name(self) -> str:
        """The name, which messages show."""
        return str(self.config["name"])

    @property
    def ignores_failures(self) -> bool:
        """True if a failed call counts as consent."""
        return bool(self.config.get("failurePolicy") == "Ignore")

    @property
    def has_side_effects(self) -> bool:
        """True if the webhook does not support dry runs."""
        return self.config.get("sideEffects") not in ("None", "NoneOnDryRun")

    @property
    def timeout(self) -> int:
        """The timeout of a call in seconds."""
        return int(self.config.get("timeoutSeconds", 10))


def hooks_of(configurations: Collection) -> Iterator[Hook]:
    """Yield the webhooks of configurations sorted by name (configuration/*_manager.go).

    The webhooks of one configuration come in its order.
    """
    for stored in sorted(configurations, key=_name):
        metadata = stored.obj["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        version = metadata["resourceVersion"]
        for number, config in enumerate(stored.obj.get("webhooks") or ()):
            yield Hook(name, (name, uid, version, number), config)


def _name(stored: Any) -> str:
    return str(stored.obj["metadata"]["name"])
