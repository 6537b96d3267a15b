"""A workload: administrators change, label, replace and edit roles."""

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


ADMIN: Final = "gathered-admin"
EDIT: Final = "gathered-edit"
IDLE: Final = "gathered-idle"
AGGREGATED: Final[dict[str, str]] = {ADMIN: "to-admin", EDIT: "to-edit", IDLE: "none"}
"""Aggregated roles, with the label that each of them selects."""

_SOURCES: Final = ("gathered-view", "gathered-logs", "gathered-probe")
_RESOURCES: Final = ("pods", "nodes", "secrets", "services", "endpoints")


def rule_for(resource: str) -> JSON:
    """Return a rule that allows to read a resource of the core group."""
    return {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}


def aggregated_json(name: str) -> JSON:
    """Return an aggregated role; that of editors goes into that of administrators."""
    selector = {"matchLabels": {AGGREGATED[name]: "true"}}
    labels = {"to-admin": "true"} if name in (ADMIN, EDIT) else {}
    return {
        "metadata": {"name": name, "labels": labels},
        "aggregationRule": {"clusterRoleSelectors": [selector]},
    }


class Administrators(Workload):
    """Administrators of the roles of one cluster."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"roles {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace != NAMESPACE:
            return
        for name in AGGREGATED:
            self._create(aggregated_json(name))
        for name in _SOURCES:
            self._create(self._source(name))

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            self._rng.choice((self._edit, self._edit, self._replace, self._meddle))()

    def _create(self, role: JSON) -> None:
        self.world.server.objects.create(self.world.kind("clusterroles"), "", role)

    def _source(self, name: str) -> JSON:
        labels = self._rng.sample(("to-admin", "to-edit"), self._rng.randint(0, 2))
        resources = self._rng.sample(_RESOURCES, 2)
        return {
            "metadata": {"name": name, "labels": dict.fromkeys(labels, "true")},
            "rules": [rule_for(each) for each in resources],
        }

    def _edit(self) -> None:
        """Give a role other labels and rules."""
        source = self._source(self._rng.choice(_SOURCES))

        def change(role: JSON) -> None:
            role["metadata"]["labels"] = source["metadata"]["labels"]
            role["rules"] = source["rules"]

        self._change(source["metadata"]["name"], change)

    def _replace(self) -> None:
        """Delete a role, and create it again."""
        name = self._rng.choice((*_SOURCES, *AGGREGATED))
        found = self.world.find("clusterroles", "", name)
        assert found is not None
        self.world.delete("clusterroles", found)
        again = aggregated_json(name) if name in AGGREGATED else self._source(name)
        self._create(again)

    def _meddle(self) -> None:
        """Write rules by hand into an aggregated role."""
        rules = [rule_for("by-hand")]
        name = self._rng.choice((ADMIN, EDIT))
        self._change(name, lambda role: role.update(rules=rules))

    def _change(self, name: str, edit: Any) -> None:
        found = self.world.find("clusterroles", "", name)
        assert found is not None
        self.world.change("clusterroles", found, edit)
