"""Defaults of the spec of a job that its template in a cron job has as well."""

from controller_manager.api.json_objects import JSON


def default_failure_policy(spec: JSON) -> None:
    """Fill in the status of the conditions in a pod failure policy."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
