"""The forms of recordings have this in common."""

from typing import Protocol

from controller_manager.api.json_objects import JSON
from tests.conformance.access import Other


class Form(Protocol):
    """The form of a recording: the kinds and fields that its checkpoints show."""

    kinds: tuple[str, ...]
    """The kinds that checkpoints show."""

    others: tuple[Other, ...]
    """The objects of other namespaces that checkpoints show."""

    cluster_events: bool
    """True if checkpoints show the events about cluster-scoped objects."""

    settled: tuple[str, ...]
    """The kinds that must not change for a while before a checkpoint is taken."""

    late_pods: float
    """Seconds for which the steps wait for the pods that they are about."""

    @property
    def ready(self) -> tuple[str, ...]:
        """Conditions that a pod gets when it becomes ready."""

    def learn(self, objects: list[JSON]) -> None:
        """Give the generated names and uids in objects their aliases."""

    def state(self, lists: dict[str, list[JSON]]) -> JSON:
        """Return a checkpoint's state from lists of objects by kind."""
