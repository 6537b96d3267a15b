"""Each value of a flag is taken or refused as kube-controller-manager 1.36 does."""

from pathlib import Path

import pytest

from controller_manager.options.config import Config
from tests.cli.test_cli import config_of, refused, run

TAKEN = [
    ("emulated-version", "v1.36", "[v1.36]"),
    ("emulated-version", "kube=v1.35", "[kube=v1.35]"),
    ("emulated-version", "1.34.0", "[1.34.0]"),
    ("min-compatibility-version", "v1.35", "[v1.35]"),
    ("concurrent-deployment-syncs", "0x5", "5"),
    ("concurrent-deployment-syncs", "1_0", "10"),
    ("concurrent-deployment-syncs", "024", "20"),
    ("concurrent-deployment-syncs", "0o17", "15"),
    ("concurrent-deployment-syncs", "0b11", "3"),
    ("concurrent-deployment-syncs", "+7", "7"),
    ("secure-port", "0", "0"),
    ("kube-api-qps", "0x1p4", "16"),
    ("kube-api-qps", "2e1", "20"),
    ("kube-api-qps", ".5", "0.5"),
    ("tls-curve-preferences", "0x1d", "[29]"),
    ("leader-elect-resource-name", "", ""),
    ("node-monitor-period", "-1s", "-1s"),
    ("route-reconciliation-period", "1500μs", "1.5ms"),
    ("cloud-provider", "external", "external"),
    ("cidr-allocator-type", "RangeAllocator", "RangeAllocator"),
    ("log-flush-frequency", "1ns", "1ns"),
    ("v", "007", "7"),
    ("vmodule", "a=1,,b=02", "a=1,b=02"),
    ("bind-address", " 127.0.0.1 ", "127.0.0.1"),
    ("tls-sni-cert-key", "a,b;c,d:x, y", "[a,b,c,d:x, y]"),
    ("disabled-metrics", '"a",b', "[a,b]"),
]
"""A flag, a value that upstream takes, and what /flagz shows of it."""

REFUSED = [
    ("emulated-version", "1.37", "'1.37' is not a version from 1.33 to 1.36"),
    ("emulated-version", "2.36", "'2.36' is not a version from 1.33 to 1.36"),
    ("emulated-version", "1.36.1", "'1.36.1' is not a version from 1.33 to 1.36"),
    ("emulated-version", "wardle=1.36", "component not registered: wardle"),
    (
        "emulated-version",
        "1.35,kube=1.36",
        "duplicate version flag, kube=1.35 and kube=1.36",
    ),
    (
        "concurrent-deployment-syncs",
        "1__0",
        "invalid argument: not a whole number: '1__0'",
    ),
    ("concurrent-deployment-syncs", "09", "invalid argument: not a whole number: '09'"),
    ("concurrent-deployment-syncs", "٣", "invalid argument: not a whole number: '٣'"),
    (
        "concurrent-deployment-syncs",
        "0x80000000",
        "invalid argument: out of range: 2147483648",
    ),
    ("kube-api-qps", " 5", "invalid argument: not a number: ' 5'"),
    ("tls-curve-preferences", "", "invalid argument: not a whole number: ''"),
    (
        "min-resync-period",
        "+-1s",
        "invalid argument: not a duration: '+-1s'; write it as 10s, 1m30s or 12h",
    ),
    (
        "cloud-provider",
        "aws",
        (
            'must be empty or "external", not "aws": no cloud provider is part of '
            "kube-controller-manager any more"
        ),
    ),
    ("cidr-allocator-type", "Foo", 'must be "RangeAllocator", not "Foo"'),
    ("log-flush-frequency", "0", "must be longer than 0s, it is 0s"),
    ("log-flush-frequency", "-1s", "must be longer than 0s, it is -1s"),
    (
        "allow-metric-labels-manifest",
        "/nonexistent/labels",
        "/nonexistent/labels: No such file or directory",
    ),
    (
        "leader-migration-config",
        "/nonexistent/migration",
        "/nonexistent/migration: No such file or directory",
    ),
    (
        "tls-sni-cert-key",
        "a,b:",
        "'a,b:' must be written as certfile,keyfile or certfile,keyfile:name,name",
    ),
    ("v", "+2", "invalid argument: not a whole number: '+2'"),
    ("v", "0x2", "invalid argument: not a whole number: '0x2'"),
    ("vmodule", "a=+1", "a=+1: not a whole number"),
    (
        "log-json-split-stream",
        "true",
        (
            "Feature LoggingAlphaOptions is disabled; "
            "give --feature-gates=LoggingAlphaOptions=true as well"
        ),
    ),
    (
        "log-text-split-stream",
        "true",
        (
            "Feature LoggingAlphaOptions is disabled; "
            "give --feature-gates=LoggingAlphaOptions=true as well"
        ),
    ),
    (
        "log-text-info-buffer-size",
        "64Ki",
        (
            "Feature LoggingAlphaOptions is disabled; "
            "give --feature-gates=LoggingAlphaOptions=true as well"
        ),
    ),
    (
        "bind-address",
        "fe80::1%eth0",
        "invalid argument: not an IP address: 'fe80::1%eth0'",
    ),
]
"""A flag, a value that upstream refuses, and the problem that is named."""


def shown(flag: str, text: str) -> str:
    return config_of({flag: [text]}).flags[flag]


@pytest.mark.parametrize(("flag", "text", "value"), TAKEN)
def test_a_value_that_upstream_takes_is_taken(flag: str, text: str, value: str) -> None:
    assert shown(flag, text) == value


@pytest.mark.parametrize(("flag", "text", "problem"), REFUSED)
def test_upstreams_refusals_are_ours(flag: str, text: str, problem: str) -> None:
    assert refused({flag: [text]}) == (f"--{flag}: {problem}",)


@pytest.mark.parametrize("text", ["deployment-controller, *", "*,"])
def test_an_entry_of_a_list_is_not_trimmed(text: str) -> None:
    """A space belongs to the entry, and a comma at the end begins an empty one."""
    (problem,) = refused({"controllers": [text]})
    assert "is not in the list of known controllers" in problem


def test_a_lease_may_last_less_than_a_second() -> None:
    config = config_of(
        {
            "leader-elect-lease-duration": ["900ms"],
            "leader-elect-renew-deadline": ["500ms"],
            "leader-elect-retry-period": ["100ms"],
        }
    )
    election = config.generic.leader_election
    assert (election.lease_duration, election.renew_deadline) == (0.9, 0.5)


def test_a_lease_without_a_name_is_a_warning() -> None:
    """The process runs as upstream's, but it can never lead."""
    assert config_of({"leader-elect-resource-name": [""]}).warnings == (
        (
            "--leader-elect-resource-name: without it the lease cannot be taken, and "
            "no controller starts"
        ),
    )


def test_a_negative_period_of_the_monitor_is_none() -> None:
    """Go's timers fire at once then."""
    config = config_of({"node-monitor-period": ["-1s"]})
    assert config.generic.node_monitor_period == 0.0


def test_alpha_options_of_logs_need_their_gate() -> None:
    config = config_of(
        {
            "feature-gates": ["LoggingAlphaOptions=true"],
            "logging-format": ["json"],
            "log-json-split-stream": ["true"],
        }
    )
    assert config.logging.split_stream
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- a", "its top level is not a mapping"),
        ('"m,l": [a]', "'m,l' must be a string of values with commas between them"),
        ("m: a", "'m' must be written as metric,label"),
    ],
)
def test_metric_labels_are_a_file(content: str, problem: str, tmp_path: Path) -> None:
    """So that a mistake in it is found at the start."""
    path = tmp_path / "labels.yaml"
    path.write_text(content)
    assert refused({"allow-metric-labels-manifest": [str(path)]}) == (
        f"--allow-metric-labels-manifest: {path}: {problem}",
    )
    path.write_text('"m,l": "a,b"')
    assert taken({"allow-metric-labels-manifest": str(path)})


def taken(given: dict[str, str]) -> Config:
    return config_of({flag: [text] for flag, text in given.items()})


def test_a_refused_value_ends_the_command() -> None:
    result = run("--v=+2", "--cloud-provider=aws")
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 2
