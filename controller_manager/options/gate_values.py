"""The values of all feature gates, for metrics."""

from collections.abc import Iterable, Mapping

from .gates import ALL_OF_STAGE, FeatureGates, Gate, gate_specs, values_of


def gate_values(
    gates: Iterable[Gate],
    features: FeatureGates,
    given: Mapping[str, bool],
    minor: int,
) -> dict[tuple[str, str], bool]:
    """Return whether each gate is enabled, by its name and its stage.

    `gates` have an effect in this build, and `features` has their values. All other
    gates of upstream have the value that ``--feature-gates`` gives them (`given`), or
    their default in Kubernetes 1.`minor`. Upstream: component-base
    featuregate.AddMetrics of 1.36: a gate that is younger than 1.`minor` is left out,
    and the stage of a gate that is generally available is empty.
    """
    ours = {gate.name: gate for gate in gates}
    specs = gate_specs(ours.values(), minor)
    values = values_of(given, specs)
    values |= {name: features.is_enabled(gate) for name, gate in ours.items()}
    found: dict[tuple[str, str], bool] = {
        (name, "" if spec.stage == "GA" else spec.stage): values[name]
        for name, spec in specs.items()
        if spec.stage != "PREALPHA"
    }
    return found | {
        (name, stage): given.get(name, False) for name, stage in ALL_OF_STAGE.items()
    }
