"""The models of the schema by their package: a test for each, not for each model."""

from collections import defaultdict
from collections.abc import Iterable


def models_by_package(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the sorted names of models by package, such as ``io.k8s.api.apps.v1``."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        found[name.rpartition(".")[0]].append(name)
    return dict(found)
