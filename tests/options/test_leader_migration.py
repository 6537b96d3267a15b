"""``--enable-leader-migration`` and ``--leader-migration-config``."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from controller_manager.options.config import Config
from controller_manager.options.leader_migration import LeaderMigrationConfig
from controller_manager.options.options import OptionsError
from controller_manager.options.parsing import parse
from controller_manager.registry import registry

GOOD = """\
apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: cloud-provider-extraction-migration
controllerLeaders:
- name: nodeipam
  component: cloud-controller-manager
- name: job-controller
  component: kube-controller-manager
- name: ttl
  component: "*"
"""


def parsed(flags: Mapping[str, str]) -> Config:
    return parse({name: (value,) for name, value in flags.items()}, registry())


def with_file(path: Path, content: str, **flags: str) -> Config:
    file = path / "migration.yaml"
    file.write_text(content)
    return parsed(
        {
            "enable-leader-migration": "true",
            "leader-migration-config": str(file),
            **{name.replace("_", "-"): value for name, value in flags.items()},
        }
    )


def problems_with(path: Path, content: str) -> list[str]:
    with pytest.raises(OptionsError) as caught:
        with_file(path, content)
    start = f"--leader-migration-config: {path / 'migration.yaml'}: "
    assert all(each.startswith(start) for each in caught.value.problems)
    return [each.removeprefix(start) for each in caught.value.problems]


def test_without_the_flag_there_is_no_migration() -> None:
    assert parsed({}).generic.leader_migration is None


def test_the_default_is_upstreams() -> None:
    config = parsed({"enable-leader-migration": "true"})
    assert config.warnings == ()
    assert config.generic.leader_migration == LeaderMigrationConfig(
        "cloud-provider-extraction-migration",
        {"route": "*", "service": "*", "cloud-node-lifecycle": "*"},
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_file_names_the_lease_and_the_component_of_each_controller(
    tmp_path: Path, version: str
) -> None:
    """In each version of upstream; the older ones have the kind of the lock, too."""
    content = GOOD.replace("/v1\n", f"/{version}\nresourceLock: leases\n")
    config = with_file(tmp_path, content)
    assert config.warnings == ()
    migration = config.generic.leader_migration
    assert migration == LeaderMigrationConfig(
        "cloud-provider-extraction-migration",
        {
            "nodeipam": "cloud-controller-manager",
            "job-controller": "kube-controller-manager",
            "ttl": "*",
        },
    )
    names = ("node-ipam-controller", "nodeipam")
    assert migration.component_of(*names) == "cloud-controller-manager"
    assert migration.component_of("ttl-controller", "ttl") == "kube-controller-manager"
    assert migration.component_of("deployment-controller") is None


HEAD = GOOD.partition("leaderName")[0]


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("[]", ["its top level is not a mapping"]),
        (
            "kind: Foo\napiVersion: v1\n",
            [
                (
                    "must be a LeaderMigrationConfiguration of "
                    "controllermanager.config.k8s.io/v1, it is Foo of v1"
                )
            ],
        ),
        (
            HEAD + "resourceLock: endpoints\ncontrollerLeaders: [{}, job]\n",
            [
                (
                    "leaderName: Required value: leaderName must be set for "
                    "LeaderMigrationConfiguration"
                ),
                (
                    'resourceLock: Invalid value: "endpoints": resource Lock must be '
                    '"leases"'
                ),
                "controllerLeaders[0].component: Required value: component must be set",
                "controllerLeaders[0].name: Required value: name must be set",
                "controllerLeaders[1]: must be a mapping with name and component",
            ],
        ),
        (HEAD + "leaderName: m\ncontrollerLeaders: {}\n  ", []),
        (
            HEAD + "leaderName: m\ncontrollerLeaders: {a: b}\n",
            ["controllerLeaders: must be a list"],
        ),
    ],
)
def test_a_file_that_upstream_refuses_is_refused_in_its_words(
    tmp_path: Path, content: str, problems: list[str]
) -> None:
    """One line for each problem, with flag and file."""
    if problems:
        assert problems_with(tmp_path, content) == problems
    else:
        config = with_file(tmp_path, content)
        assert config.generic.leader_migration == LeaderMigrationConfig("m", {})


def test_a_file_that_is_missing_is_one_problem() -> None:
    with pytest.raises(OptionsError) as caught:
        parsed(
            {
                "enable-leader-migration": "true",
                "leader-migration-config": "/nonexistent/m.yaml",
            }
        )
    assert caught.value.problems == (
        "--leader-migration-config: /nonexistent/m.yaml: No such file or directory",
    )


def test_flags_and_fields_without_effect_are_named(tmp_path: Path) -> None:
    file = tmp_path / "migration.yaml"
    content = GOOD.replace("leaderName", "leaderNames: x\nleaderName").replace(
        "name: ttl", "name: ttll"
    )
    assert with_file(tmp_path, content).warnings == (
        (
            f"--leader-migration-config: {file}: leaderNames: there is no such field, "
            "it is ignored"
        ),
        (
            f'--leader-migration-config: {file}: "ttll" is not in the list of known '
            "controllers; did you mean ttl-controller?"
        ),
    )
    without_election = with_file(tmp_path, GOOD, leader_elect="false")
    assert without_election.warnings == (
        "--enable-leader-migration: has no effect without --leader-elect",
    )
    assert without_election.generic.leader_migration is None
    unused = parsed({"leader-migration-config": str(file)})
    assert unused.warnings == (
        "--leader-migration-config: has no effect without --enable-leader-migration",
    )
    assert unused.generic.leader_migration is None
