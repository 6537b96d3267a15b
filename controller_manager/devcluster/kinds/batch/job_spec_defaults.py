"""Defaults of the spec of a job that its template in a cron job has as well."""

from typing import Any

JSON = dict[str, Any]


def default_failure_policy(spec: JSON) -> None:
    """Fill in the status of the conditions in a pod failure policy."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
