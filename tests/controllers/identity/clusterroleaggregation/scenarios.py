"""Situations in clusters that concern only the aggregation of roles."""

import asyncio
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.identity.clusterroleaggregation.workload import (
    ADMIN,
    EDIT,
    aggregated_json,
    rule_for,
)
from tests.simulation.environment import Environment, Scenario


def _create(environment: Environment, role: JSON) -> None:
    world = environment.world
    world.server.objects.create(world.kind("clusterroles"), "", role)


def _find(environment: Environment, name: str) -> JSON:
    found = environment.world.find("clusterroles", "", name)
    assert found is not None
    return found


def _rules(environment: Environment, name: str) -> list[JSON]:
    rules: list[JSON] = _find(environment, name).get("rules") or []
    return rules


def _source(name: str, *resources: str) -> JSON:
    labels = {"to-edit": "true"}
    rules = [rule_for(each) for each in resources]
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


async def roles_come_and_go(environment: Environment) -> None:
    """No issue: two sources of a role change, lose their label, and are deleted.

    As upstream: their rules are gathered in the order of their names, and pass through
    a chain of roles. A role that selects itself does not keep its own old rules.
    """
    await asyncio.sleep(10)
    for name in (ADMIN, EDIT):
        _create(environment, aggregated_json(name))
    _create(environment, _source("gathered-b", "nodes", "pods"))
    _create(environment, _source("gathered-a", "secrets", "pods"))
    await asyncio.sleep(30)
    gathered = [rule_for(each) for each in ("secrets", "pods", "nodes")]
    assert _rules(environment, EDIT) == _rules(environment, ADMIN) == gathered
    environment.world.change(
        "clusterroles",
        _find(environment, "gathered-a"),
        lambda role: role["metadata"].pop("labels"),
    )
    await asyncio.sleep(30)
    left = [rule_for(each) for each in ("nodes", "pods")]
    assert _rules(environment, EDIT) == _rules(environment, ADMIN) == left
    environment.world.delete("clusterroles", _find(environment, "gathered-b"))
    await asyncio.sleep(30)
    assert _rules(environment, EDIT) == _rules(environment, ADMIN) == []


SCENARIOS: Final[tuple[Scenario, ...]] = (roles_come_and_go,)
"""Tests of the controller of the same name."""
