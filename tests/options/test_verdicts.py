"""Each value of a flag is taken or refused as kube-controller-manager 1.36 does."""

from pathlib import Path

import pytest
import yaml

from controller_manager.options.config import Config
from tests.cli.test_cli import config_of, refused, run

VALUES = yaml.safe_load(Path(__file__).with_name("values.yaml").read_text())


def rows(of: str) -> list[tuple[str, str, str]]:
    found = VALUES[of].items()
    return [(flag, text, said) for flag, each in found for text, said in each.items()]


def shown(flag: str, text: str) -> str:
    return config_of({flag: [text]}).flags[flag]


@pytest.mark.parametrize(("flag", "text", "value"), rows("taken"))
def test_a_value_that_upstream_takes_is_taken(flag: str, text: str, value: str) -> None:
    assert shown(flag, text) == value


@pytest.mark.parametrize(("flag", "text", "problem"), rows("refused"))
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
