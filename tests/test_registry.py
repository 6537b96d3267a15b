"""Controllers are found, and selected by name."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from controller_manager import controllers, upstream
from controller_manager.client.builder import Connections
from controller_manager.options.config import PodRangesConfig
from controller_manager.options.gates import FeatureGates, Gate
from controller_manager.registry import check_packages, registry
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.registry import (
    Registry,
    RegistryError,
    UnknownControllerError,
)
from tests.clusters import Cluster, make_config, manager_of, running_manager
from tests.controllers.identity.tokens.clusters import with_key

NAMES = registry().names
ENABLED = [each.name for each in registry().descriptors if not each.disabled_by_default]
MINE = Descriptor("mine-controller", ".reconciler:Mine", package="mine")


def test_every_package_of_a_controller_is_found_with_its_descriptor() -> None:
    """The controllers of this tree: ``controllers/AREA/NAME/``, nothing else."""
    (root,) = map(Path, controllers.__path__)
    packages = {
        ".".join((controllers.__name__, *path.parent.relative_to(root).parts))
        for path in root.glob("*/*/__init__.py")
    }
    in_tree = [
        each
        for each in registry().descriptors
        if each.package.startswith(controllers.__name__)
    ]
    assert {each.package: each for each in in_tree} == {
        package: replace(import_module(package).CONTROLLER, package=package)
        for package in packages
    }
    assert [each.name for each in in_tree] == sorted(each.name for each in in_tree)


@pytest.mark.parametrize("name", NAMES)
def test_the_reconciler_of_each_descriptor_exists(name: str) -> None:
    """It is a class or a function, in a module of the controller's own package."""
    descriptor = registry()[name]
    loaded = descriptor.resolve()
    assert callable(loaded)
    assert loaded.__module__.startswith(f"{descriptor.package}.")


@pytest.mark.parametrize("name", sorted(set(NAMES) & upstream.ALIASES.keys()))
def test_names_aliases_and_defaults_are_upstreams(name: str) -> None:
    """One alias or none; off by default if upstream's is."""
    descriptor = registry()[name]
    alias = upstream.ALIASES[name]
    assert descriptor.aliases == ((alias,) if alias else ())
    assert descriptor.disabled_by_default is (name in upstream.OFF_BY_DEFAULT)
    assert registry()[alias or name] is descriptor


def test_the_controllers_of_this_tree_are_all_upstreams() -> None:
    """A misspelt name would be a name that upstream does not have."""
    in_tree = {
        each.name
        for each in registry().descriptors
        if each.package.startswith(controllers.__name__)
    }
    assert in_tree - upstream.ALIASES.keys() == set()


@pytest.mark.parametrize(
    "theirs",
    [
        Descriptor("mine-controller", ".x:X", package="theirs"),
        Descriptor("zz", ".x:X", aliases=("mine-controller",), package="theirs"),
    ],
    ids=["name", "alias"],
)
def test_two_controllers_of_one_name_are_refused(theirs: Descriptor) -> None:
    with pytest.raises(RegistryError) as caught:
        Registry((MINE, theirs))
    assert str(caught.value) == (
        f"two controllers are called mine-controller: {theirs.name} of theirs, and "
        "mine-controller of mine; remove one of the packages"
    )


def test_a_gate_that_two_controllers_declare_differently_is_refused() -> None:
    gate = Gate("SomeFeature")
    one, other = replace(MINE, gates=(gate,)), replace(MINE, name="z", gates=(gate,))
    assert Registry((one, other)).gates.count(gate) == 1
    other = replace(other, gates=(msgspec.structs.replace(gate, default=False),))
    with pytest.raises(RegistryError) as caught:
        Registry((one, other))
    assert str(caught.value) == (
        "z declares the feature gate SomeFeature differently from another controller; "
        "make them equal"
    )


@pytest.mark.looptime
@pytest.mark.parametrize("name", NAMES)
async def test_a_descriptor_names_the_metrics_that_only_its_controller_has(
    cluster: Cluster, name: str
) -> None:
    families = CollectorRegistry()
    descriptor = registry()[name]
    every = (*descriptor.gates, *descriptor.requires_gates)
    gates = {each.name: True for each in every if not each.locked}
    # Without this the node IPAM controller does not run.
    pods = PodRangesConfig(allocate=True, cluster="10.244.0.0/16")
    # The manager needs one that runs, and a controller may need files.
    config = make_config(controllers=(name, "ttl-controller"))
    manager = manager_of(
        cluster,
        with_key(replace(config, features=FeatureGates(gates), pod_ranges=pods)),
        Connections(cluster.transport, root_ca="PEM"),
        registry=families,
    )
    general = _names(families)
    async with running_manager(manager):
        pass
    assert _names(families) - general == set(descriptor.metrics)


def _names(families: CollectorRegistry) -> set[str]:
    return {
        f"{each.name}_total" if _has_suffix(each) else each.name
        for each in families.collect()
    }


def _has_suffix(family: Metric) -> bool:
    return family.type == "counter" and not any(
        each.name == family.name for each in family.samples
    )


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ([], []),
        (["*"], ENABLED),
        (["*", "-deployment-controller"], {*ENABLED} - {"deployment-controller"}),
        (["-deployment", "*"], {*ENABLED} - {"deployment-controller"}),
        (["replicaset"], ["replicaset-controller"]),
        (["-deployment", "deployment"], []),
    ],
)
def test_names_aliases_and_stars_enable(selection: list[str], names: list[str]) -> None:
    assert [each.name for each in registry().select(selection)] == sorted(names)


def test_a_controller_that_is_off_by_default_runs_only_if_it_is_named() -> None:
    off = replace(MINE, aliases=("mine",), disabled_by_default=True)
    on = replace(MINE, name="z")
    build = Registry((off, on))
    assert build.select(["*"]) == [on]
    assert build.select(["*", "mine"]) == [off, on]
    assert build.select(["mine-controller"]) == [off]


def test_an_unknown_controller_cannot_be_selected() -> None:
    """Even if the selection was not validated before."""
    with pytest.raises(UnknownControllerError, match='"nope"'):
        registry().select(["nope"])


def test_every_controller_of_upstream_is_in_this_build() -> None:
    """But for those of cloud providers, which upstream does not run either."""
    assert upstream.ALIASES.keys() - {*registry().names} == upstream.CLOUD


def test_an_unknown_name_is_a_problem_also_if_it_is_disabled() -> None:
    build = Registry((MINE,))
    problems, warnings = build.check_selection(
        ["-nope", "-mine-controller", "mine-contoller", "*"]
    )
    text = "is not in the list of known controllers"
    assert problems == [
        f'"nope" {text}; the help of --controllers lists them',
        f'"mine-contoller" {text}; did you mean mine-controller?',
    ]
    assert warnings == []


@pytest.mark.parametrize(
    "name", ["service", "service-lb-controller", "route", "cloud-node-lifecycle"]
)
def test_a_controller_of_cloud_providers_runs_nowhere(name: str) -> None:
    """Upstream takes its name, and does not run it either."""
    problems, warnings = registry().check_selection(["*", f"-{name}", name])
    assert problems == []
    why = "is run by a cloud-controller-manager only"
    assert warnings == [f"{name} {why}, neither here nor by kube-controller-manager"]
    assert not upstream.CLOUD & {*upstream.ON_BY_DEFAULT, *registry().names}


@pytest.mark.parametrize("missing", ["network", "network/peers"])
def test_a_directory_without_a_package_is_refused(tmp_path: Path, missing: str) -> None:
    """Nothing in it would be found, without a word."""
    (tmp_path / "__init__.py").touch()
    (tmp_path / "network" / "peers").mkdir(parents=True)
    (tmp_path / "network" / "peers" / "reconciler.py").touch()
    for each in {"network", "network/peers"} - {missing}:
        (tmp_path / each / "__init__.py").touch()
    with pytest.raises(RegistryError, match=r"but no __init__\.py; add one$") as caught:
        check_packages(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / missing} has ")
    (tmp_path / missing / "__init__.py").touch()
    check_packages(tmp_path)
