"""Reads the pods on the cluster of a simulation."""

from tests.simulation.environment import Environment


def remaining_pods(environment: Environment) -> list[str]:
    """Return the names of the pods that are not being deleted."""
    return [
        each["metadata"]["name"]
        for each in environment.world.stored("pods", "default")
        if not each["metadata"].get("deletionTimestamp")
    ]
