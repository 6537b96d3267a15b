"""The properties that the controller promises to controller-manager's simulation.

``python -m tests.simulation --properties shared_config_properties`` runs it among all
others while everything breaks. The path must have the tree, this package, installed,
and this directory.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.managers import Manager

NAME = "shared-config"


class Users(Workload):
    """They share a config map."""

    def create_objects(self, namespace: str) -> None:
        if namespace == "default":
            kind = self.world.kind("configmaps")
            shared: dict[str, Any] = {"metadata": {"name": NAME}, "data": {"a": "1"}}
            self.world.server.objects.create(kind, "kube-system", shared)


class SharedConfigProperties(Properties):
    """In the end each namespace has its copy; nothing but copies is written."""

    controller = "shared-config-controller"
    may_write = (
        AllowedWrite(("create",), "configmaps"),
        AllowedWrite(("update",), "configmaps", only(("data",))),
    )
    workload = Users

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        del managers
        for namespace in self.state.stored("namespaces"):
            name = namespace["metadata"]["name"]
            copy = self.state.find("configmaps", name, NAME)
            if copy is None or copy["data"] != {"a": "1"}:
                yield f"{name} has no copy of the shared config map"


PROPERTIES = SharedConfigProperties
