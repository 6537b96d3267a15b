"""Properties of the aggregation of cluster roles."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.identity.clusterroleaggregation.workload import (
    AGGREGATED,
    IDLE,
    Administrators,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_ROLES: Final = "clusterroles"
_WRITTEN: Final = (("rules",), ("metadata", "managedFields"))


class AggregationProperties(Properties):
    """It writes rules of aggregated roles, and nothing else."""

    controller = "clusterrole-aggregation-controller"
    may_write = (AllowedWrite(("patch",), _ROLES, only(*_WRITTEN)),)
    workload = Administrators

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that only aggregated roles get rules, and that no role is created."""
        if write.controller != self.controller or write.after is None:
            return
        if write.before is None:
            yield f"{write}: it creates a role"
        elif "aggregationRule" not in write.after:
            yield f"{write}: this role gathers nothing"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check the rules of each role against those of the roles that it selects."""
        del managers
        roles = self.state.stored(_ROLES)
        for role in roles:
            name = role["metadata"]["name"]
            if name not in AGGREGATED or name == IDLE:
                continue
            wanted = _aggregated_rules(role, roles)
            if wanted and (role.get("rules") or []) != wanted:
                yield f"the role {name} has {role.get('rules')}, not {wanted}"

    def end_state(self) -> JSON:
        """Return the rules of the administrators' roles that gather any.

        Of the others it depends on the moment whether rules by hand have stayed.
        """
        roles = self.state.stored(_ROLES)
        return {
            role["metadata"]["name"]: role.get("rules")
            for role in roles
            if role["metadata"]["name"] in AGGREGATED and _aggregated_rules(role, roles)
        }


def _aggregated_rules(role: JSON, roles: list[JSON]) -> list[JSON]:
    """Return the rules that a role must have, each once, by the names of the roles."""
    label = AGGREGATED[role["metadata"]["name"]]
    found: list[JSON] = []
    for each in roles:
        metadata = each["metadata"]
        is_other = metadata["name"] != role["metadata"]["name"]
        if is_other and metadata.get("labels", {}).get(label) == "true":
            found += [rule for rule in (each.get("rules") or []) if rule not in found]
    return found


PROPERTIES = AggregationProperties
