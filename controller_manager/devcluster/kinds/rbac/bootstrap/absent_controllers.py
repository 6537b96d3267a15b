"""Roles of controllers that only cloud providers run (controller_policy.go)."""

from collections.abc import Iterator

from controller_manager.api.json_objects import JSON

from .policy import READ, RECORD_EVENTS, account, binding, cluster_role, rule


def roles_of_absent_controllers() -> Iterator[JSON]:
    """Yield the cluster roles of the controllers of routes and of load balancers."""
    nodes = rule("list watch", "core", "nodes")
    rules = {
        "route-controller": (nodes, rule("patch", "core", "nodes/status")),
        "service-controller": (
            rule(READ, "core", "services"),
            rule("patch update", "core", "services/status"),
            nodes,
        ),
    }
    for name, own in rules.items():
        full_name = f"system:controller:{name}"
        yield cluster_role(full_name, [*own, RECORD_EVENTS])
        yield binding(full_name, [account(name)])
