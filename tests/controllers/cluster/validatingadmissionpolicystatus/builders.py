"""Policies for tests."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON

DEPLOYMENTS: Final = ("apps", "v1", "deployments")


def rule(group: str, version: str, *resources: str) -> JSON:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [*resources],
        "operations": ["CREATE"],
    }


def policy_json(name: str, *expressions: str, rules: Any = (), **spec: Any) -> JSON:
    """Return a policy with expressions, by default about deployments."""
    return {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [*rules] or [rule(*DEPLOYMENTS)]},
            "validations": [{"expression": each} for each in expressions],
            **spec,
        },
    }
