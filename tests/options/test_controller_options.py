"""Options of controllers, curves, and the file of the leader migration."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from controller_manager.options.config import Config
from controller_manager.options.controller_options import (
    ControllerOptions,
    flags_of,
    make_options,
    option,
)
from controller_manager.options.flag import Flag, FlagType
from controller_manager.options.flag_set import DuplicateFlag, FlagSet
from controller_manager.options.leader_migration import LeaderMigrationConfig
from controller_manager.options.options import OptionsError
from controller_manager.options.parsing import parse
from controller_manager.registry import registry


class Sample(ControllerOptions):
    """One attribute of each kind."""

    count: int = option("sample-count", "int32", "3", "How many.")
    period: float = option("sample-period", "duration", "1m30s", "How often.")
    names: tuple[str, ...] = option("sample-names", "strings", "a,b", "Which.")
    rates: dict[str, str] = option("sample-rates", "pairs", None, "How fast.")


def test_without_arguments_options_have_the_defaults_of_their_flags() -> None:
    defaults = Sample()
    assert (defaults.count, defaults.period) == (3, 90.0)
    assert (defaults.names, defaults.rates) == (("a", "b"), {})
    assert defaults == Sample(3, 90.0, ("a", "b"), {}) != Sample(count=4)
    assert repr(Sample(4)) == "Sample(count=4, period=90.0, names=('a', 'b'), rates={})"


def test_options_are_made_of_the_values_of_their_flags() -> None:
    values = {
        "sample-count": 5,
        "sample-period": "2s",
        "sample-names": ["c"],
        "sample-rates": {"d": "1"},
    }
    made = make_options(Sample, values.__getitem__)
    assert made == Sample(count=5, period=2.0, names=("c",), rates={"d": "1"})


def test_options_cannot_be_changed() -> None:
    """They are shared by all that read them."""
    with pytest.raises(AttributeError, match=r"^Sample\.count cannot be changed to 4$"):
        Sample().count = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="has only count, period, names, rates"):
        Sample(other=1)  # type: ignore[call-arg]


def test_flags_stand_in_the_section_of_their_controller() -> None:
    assert [(each.section, each.path) for each in flags_of(Sample, "a-controller")] == [
        ("A-controller", "AController.SampleCount"),
        ("A-controller", "AController.SamplePeriod"),
        ("A-controller", "AController.SampleNames"),
        ("A-controller", "AController.SampleRates"),
    ]


@pytest.mark.parametrize(
    ("type_", "default"), [("duration", None), ("duration", "soon"), ("int32", None)]
)
def test_a_default_is_a_value_of_its_type(type_: FlagType, default: str | None) -> None:
    with pytest.raises(
        ValueError, match=r"^--sample-bad: .* is no default of the type"
    ):
        type(
            "Bad",
            (ControllerOptions,),
            {"bad": option("sample-bad", type_, default, "Bad.")},
        )


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ("My.Interval", "My.Interval", "which is one of --sample-one"),
        ("My.Interval", "My", "My.Interval of --sample-one is inside of My"),
        ("My.Interval", "Generic", "is inside of Generic"),
        ("My.Interval", "kind", "which is one of no flag"),
    ],
)
def test_a_field_of_the_configuration_file_belongs_to_one_flag(
    one: str, other: str, problem: str
) -> None:
    """Else one value would set two options, or the file could not be shown."""
    flags = (
        Flag("sample-one", "int32", "1", "One.", one, "One-controller"),
        Flag("sample-other", "int32", "1", "Other.", other, "Other-controller"),
    )
    with pytest.raises(DuplicateFlag) as caught:
        FlagSet(flags)
    assert problem in str(caught.value)


def test_a_flag_of_upstreams_keeps_its_place_in_the_configuration_file() -> None:
    name = "concurrent-service-syncs"
    flag = Flag(name, "int32", "1", "Some.", "My.Syncs", "My")
    found = FlagSet((flag,))[name]
    assert (found.path, found.section) == (
        "ServiceController.ConcurrentServiceSyncs",
        "Service-lb-controller",
    )


_ORIGIN = "--tls-curve-preferences:"


@pytest.mark.parametrize(
    ("given", "curve", "warnings"),
    [
        ("24", "secp384r1", ()),
        ("4588,23", "prime256v1", (f"{_ORIGIN} curve 4588 cannot be chosen here",)),
        ("23,24", "", (f"{_ORIGIN} several curves are given, OpenSSL chooses",)),
        (
            "29",
            "",
            (
                f"{_ORIGIN} curve 29 cannot be chosen here",
                f"{_ORIGIN} no known curves are given, OpenSSL chooses",
            ),
        ),
    ],
)
def test_an_unknown_curve_is_passed_over_with_a_warning(
    given: str, curve: str, warnings: tuple[str, ...]
) -> None:
    """As Go passes it over; a client of a newer curve takes another one."""
    config = parse({"tls-curve-preferences": [given]}, registry())
    assert (config.serving.curve, config.warnings) == (curve, warnings)


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


ROWS = yaml.safe_load(Path(__file__).with_name("migrations.yaml").read_text())


@pytest.mark.parametrize(("content", "problems"), ROWS)
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
