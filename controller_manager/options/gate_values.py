"""The values of all feature gates, for metrics."""

from collections.abc import Iterable

from controller_manager.options.gates import FeatureGates, Gate


def gate_values(
    gates: Iterable[Gate], features: FeatureGates
) -> dict[tuple[str, str], bool]:
    """Return whether each gate is enabled, by its name and its stage.

    The stage is empty for a locked gate: its feature is generally available.
    """
    return {
        (gate.name, "" if gate.locked else gate.stage): features.is_enabled(gate)
        for gate in gates
    }
