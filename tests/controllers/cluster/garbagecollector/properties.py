"""Properties of the garbage collector."""

from collections.abc import Iterator, Sequence

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.cluster.garbagecollector.controller import (
    GarbageCollector,
)
from tests.simulation.changes import only
from tests.simulation.ending import pools_of
from tests.simulation.managers import Manager
from tests.simulation.objects import path_of
from tests.simulation.properties import AllowedWrite, Properties, Write


class GarbageCollectorProperties(Properties):
    """No object with a living owner is deleted; in the end all other dependents are."""

    controller = "garbage-collector-controller"
    may_write = (
        AllowedWrite(("delete",), "*"),
        AllowedWrite(
            ("patch",),
            "*",
            only(("metadata", "ownerReferences"), ("metadata", "finalizers")),
        ),
    )
    bounded = ("absent.items", "deleted_owners.items", "orphaned.items")

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no object with a living owner is collected."""
        if write.controller != self.controller or write.verb != "delete":
            return
        if write.before is None:
            return
        metadata = write.before["metadata"]
        for owner in metadata.get("ownerReferences", []):
            if (metadata["uid"], owner["uid"]) in self.state.orphaned:
                yield f"{write}: collected, and was to be kept"
            alive = self._living_owner(write.before, owner["uid"])
            if alive is not None and not _deletes_dependents(alive):
                yield f"{write}: collected while its owner {owner['name']} lives"

    def _living_owner(self, obj: JSON, uid: str) -> JSON | None:
        namespace = obj["metadata"].get("namespace")
        for each in self.state.everything("events"):
            metadata = each["metadata"]
            if metadata["uid"] == uid and metadata.get("namespace") in (
                None,
                namespace,
            ):
                return each
        return None

    def wrong_at_the_end(self, managers: Sequence[Manager]) -> Iterator[str]:
        yield from self._wrong_graphs(managers)
        yield from self._uncollected()

    def _wrong_graphs(self, managers: Sequence[Manager]) -> Iterator[str]:
        """Yield differences between a collector's graph and the stored objects."""
        stored = self.state.everything("events")
        uids = {each["metadata"]["uid"]: each["metadata"]["name"] for each in stored}
        for manager in managers:
            daemon = manager.manager
            if daemon is None or (daemon.elector is not None and not manager.leads):
                continue
            if self.controller not in daemon.controllers.names:
                continue  # the process has only just started
            pools = pools_of(daemon.controllers[self.controller].controller)
            collector = pools[0].reconcile.__self__  # type: ignore[attr-defined]
            assert isinstance(collector, GarbageCollector)
            nodes = {
                node.uid: node.identity.name
                for node in collector.graph.nodes.values()
                if not node.is_virtual
            }
            if nodes != uids:
                differing = sorted(set(nodes.items()) ^ set(uids.items()))
                yield f"manager {manager.number}: its graph: {differing}"

    def _uncollected(self) -> Iterator[str]:
        """Yield objects that still exist although all their owners are gone."""
        objects = self.state.everything()
        uids = {each["metadata"]["uid"] for each in objects}
        for each in objects:
            owners = each["metadata"].get("ownerReferences", [])
            if owners and not any(owner["uid"] in uids for owner in owners):
                yield f"{each['kind']} {path_of(each)} was not collected"


def _deletes_dependents(owner: JSON) -> bool:
    return "foregroundDeletion" in owner["metadata"].get("finalizers", [])


PROPERTIES = GarbageCollectorProperties
