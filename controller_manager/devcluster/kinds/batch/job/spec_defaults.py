"""The defaults that a job's spec shares with the job template of a cron job."""

from controller_manager.api.json_objects import JSON


def default_failure_policy(spec: JSON) -> None:
    """Fill in the status of the conditions in a pod failure policy."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
        for pattern in rule.get("onPodConditions", ()):
            pattern.setdefault("status", "True")
