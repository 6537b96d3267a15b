"""The kinds that a real API server serves by default are served, and say the same."""

from pathlib import Path
from typing import Final

from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.registry import find_kinds

LIST: Final = Path(__file__).parents[2] / "data" / "built-in-kinds.txt"

ON_DEMAND: Final = {
    "clustertrustbundles.certificates.k8s.io/v1beta1": "controllers publish them",
    "devicetaintrules.resource.k8s.io/v1alpha3": "a controller evicts by them",
    "devicetaintrules.resource.k8s.io/v1beta2": "a controller evicts by them",
    "podcertificaterequests.certificates.k8s.io/v1beta1": "a controller cleans them up",
    "podgroups.scheduling.k8s.io/v1alpha2": "a controller protects them",
    "resourcepoolstatusrequests.resource.k8s.io/v1alpha3": "a controller answers them",
    "storageversionmigrations.storagemigration.k8s.io/v1beta1": (
        "a controller carries them out"
    ),
    "storageversions.internal.apiserver.k8s.io/v1alpha1": "a controller collects them",
    "workloads.scheduling.k8s.io/v1alpha2": "a controller makes them for jobs",
}
"""Kinds that a real server serves only if it is told to, and why they are here."""


def line_of(kind: Kind) -> str:
    """Return a kind as the list of upstream's kinds shows it."""
    columns = (
        ",".join(kind.short_names),
        ",".join(kind.categories),
        ",".join(sorted(each.name for each in kind.subresources)),
    )
    scope = "N" if kind.namespaced else "C"
    head = f"{kind.api_version} {kind.plural} {kind.kind} {scope}"
    return " ".join((head, *(each or "-" for each in columns)))


def name_of(line: str) -> str:
    api_version, plural, *_ = line.split()
    group, _, version = api_version.rpartition("/")
    return f"{plural}.{group}/{version}" if group else f"{plural}/{version}"


def test_every_kind_of_a_real_server_is_served_as_there() -> None:
    text = LIST.read_text()
    lines = [each for each in text.splitlines() if not each.startswith("#")]
    wanted = {name_of(line): line for line in lines}
    served = {name_of(line): line for line in map(line_of, find_kinds())}
    assert set(served) - set(wanted) == set(ON_DEMAND)
    assert {name: served.get(name) for name in wanted} == wanted
