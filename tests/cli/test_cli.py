"""The command line takes what upstream takes, and names what it does not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller_manager import registry
from controller_manager.cli import _config, _normalised, _split, main, make_command
from controller_manager.options import (
    FLAGS,
    ClientConfig,
    ConcurrencyConfig,
    Config,
    FeatureGates,
    GenericConfig,
    LoggingConfig,
    OptionsError,
    ServingConfig,
    parse,
    parse_bool,
    parse_duration,
)

DATA = Path(__file__).parent.parent / "data"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(make_command(), list(arguments))


def problems(*arguments: str) -> list[str]:
    """Return the lines with which a command line is refused."""
    result = run(*arguments)
    assert result.exit_code == 1
    lines: list[str] = result.output.splitlines()
    assert all(line.startswith("Error: ") for line in lines), lines
    return [line.removeprefix("Error: ") for line in lines]


def test_flags_become_one_frozen_config() -> None:
    """Every flag in its place, defaults elsewhere."""
    config = parse(
        {
            "kubeconfig": ["k"],
            "master": ["m"],
            "controllers": ["deployment", "-replicaset"],
            "concurrent-deployment-syncs": ["7"],
            "concurrent-replicaset-syncs": ["8"],
            "kube-api-qps": ["99.5"],
            "kube-api-burst": ["200"],
            "controller-start-interval": ["1m30s"],
            "controller-shutdown-timeout": ["1s"],
            "wait-for-apiserver-timeout": ["3s"],
            "min-resync-period": ["1h"],
            "feature-gates": ["WatchListClient=false,kube:AllAlpha=true"],
            "v": ["4"],
            "logging-format": ["json"],
            "leader-elect": ["false"],
            "secure-port": ["0"],
        }
    )
    assert config == Config(
        client=ClientConfig(kubeconfig="k", master="m", qps=99.5, burst=200),
        generic=GenericConfig(
            controllers=("deployment", "-replicaset"),
            controller_start_interval=90,
            controller_shutdown_timeout=1,
            min_resync_period=3600,
            api_server_timeout=3,
            leader_elect=False,
        ),
        logging=LoggingConfig(format="json", verbosity=4),
        serving=ServingConfig(port=0),
        deployment=ConcurrencyConfig(7),
        replicaset=ConcurrencyConfig(8),
        features=FeatureGates(watch_list_client=False),
        warnings=("feature gate AllAlpha has no effect in this build",),
    )


def test_names_and_defaults_are_upstreams() -> None:
    """But for the flags that are ours, and a burst a pflag cannot show."""
    recorded = {
        entry["flag"]: (section, entry.get("default"), entry["type"])
        for section, entries in json.loads((DATA / "flags.json").read_text()).items()
        for entry in entries
    }
    ours = {"wait-for-apiserver-timeout"}
    for flag in FLAGS:
        if flag.name in ours:
            continue
        section, default, type_ = recorded[flag.name]
        assert flag.section == section
        shown = flag.default if flag.default not in ("0", "0s", None) else None
        shown = f"[{shown}]" if flag.type == "strings" and shown else shown
        assert shown == default, flag.name
        if type_ in ("bool", "int", "int32", "float32", "duration", "string"):
            assert flag.type == type_, flag.name


def test_all_problems_are_reported_at_once() -> None:
    """One line each, in no need of a second try."""
    assert problems(
        "--concurrent-deployment-syncs=0",
        "--kube-api-qps=fast",
        "--min-resync-period=soon",
        "--secure-port=70000",
        "--logging-format=xml",
        "--feature-gates=X",
        "--controllers=deploymnt,-nope",
        "--bogus",
        "-q",
        "-v=x",
    ) == [
        "--feature-gates: 'X' is not name=true or name=false",
        "--kube-api-qps: invalid argument: not a number: 'fast'",
        (
            "--min-resync-period: invalid argument: not a duration: 'soon'; "
            "write it as 10s, 1m30s or 12h"
        ),
        '--logging-format: must be "text" or "json", not "xml"',
        "--v: invalid argument: not a whole number: 'x'",
        "--secure-port: must be from 0 to 65535, not 70000",
        "--concurrent-deployment-syncs: must be from 1 to 2147483647, not 0",
        (
            "--leader-elect: true (the default) is not supported by this build yet; "
            "run a single manager and give --leader-elect=false"
        ),
        "unknown flag: --bogus",
        "unknown shorthand flag: 'q' in -q",
        (
            '--controllers: "deploymnt" is not in the list of known controllers: try '
            "deployment-controller"
        ),
        (
            '--controllers: "nope" is not in the list of known controllers: try '
            "deployment-controller, replicaset-controller"
        ),
    ]


def test_the_nearest_names_are_suggested() -> None:
    """For flags and commands."""
    assert problems("--kube-api-qp=1", "--leader-elect=false")[0] == (
        "unknown flag: --kube-api-qp; did you mean --kube-api-qps or --kube-api-burst?"
    )
    assert problems("devclustr") == [
        'unknown command "devclustr" for "controller-manager"; did you mean devcluster?'
    ]


@pytest.mark.parametrize(
    ("arguments", "leader_elect"),
    [
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=false"], False),
        (["--leader_elect=F"], False),
        (["--leader-elect", "--leader-elect=0"], False),
    ],
)
def test_switches_take_three_forms(arguments: list[str], leader_elect: bool) -> None:
    """And underscores are dashes; the last value counts."""
    normalised = [_normalised(each) for each in arguments]
    texts = [each.partition("=")[2] for each in normalised]
    assert parse_bool(texts[-1]) is leader_elect
    assert all(each.startswith("--leader-elect=") for each in normalised)


def test_leader_election_is_refused_rather_than_ignored() -> None:
    """Two managers that each think they lead would be worse."""
    (problem,) = problems("--leader-elect=true")
    assert problem == (
        "--leader-elect: true is not supported by this build yet; run a single "
        "manager and give --leader-elect=false"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("10s", 10),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("-1s", -1),
    ],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    """With units, also several."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "s", "1x", "1s2", "1 s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A bare number has no unit."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_help_comes_in_sections() -> None:
    """As Cobra prints it: every flag, its type and its default."""
    text = run("--help").output
    sections = (
        "Generic flags:",
        "Secure serving flags:",
        "Deployment-controller flags:",
    )
    positions = [text.index(section) for section in sections]
    assert positions == sorted(positions)
    for flag in FLAGS:
        assert f"--{flag.name}" in text
    assert "      --min-resync-period duration\n" in text
    assert "(default 12h0m0s)" in text
    assert "(default [*])" in text
    assert "  -v, --v Level\n" in text


def test_the_version_names_both() -> None:
    """Upstream's, first, as tools expect it."""
    result = run("--version")
    assert (result.exit_code, result.output) == (
        0,
        "Kubernetes v1.36.2 (controller-manager 0.1.0)\n",
    )


def test_a_flag_of_the_daemon_is_not_taken_before_a_subcommand() -> None:
    """It would silently do nothing there."""
    assert problems("--kube-api-qps=5", "demo") == [
        (
            "--kube-api-qps: a flag of the daemon; demo takes its own flags, see "
            "controller-manager demo --help"
        )
    ]


def test_a_value_that_looks_like_a_subcommand_stays_a_value() -> None:
    """--controllers demo is a value, demo alone is a command."""
    commands = make_command().commands
    assert _split(["--controllers", "demo", "-v", "2", "demo", "-v"], commands) == (
        ["--controllers", "demo", "-v", "2"],
        ["demo", "-v"],
    )


def test_a_kubeconfig_that_is_missing_is_one_line() -> None:
    """Exit code 1, no traceback."""
    assert problems("--leader-elect=false", "--kubeconfig=/nowhere/k") == [
        "kubeconfig /nowhere/k: No such file or directory"
    ]


def test_an_unreachable_server_is_one_line() -> None:
    """Within the patience that the user gives; nobody listens on port 1."""
    result = run(
        "--leader-elect=false",
        "--secure-port=0",
        "--master=http://127.0.0.1:1",
        "--wait-for-apiserver-timeout=0s",
    )
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == (
        "Error: failed to wait for apiserver being healthy within 0 s: GET /healthz "
        "at 127.0.0.1:1: cannot connect: Connection refused"
    )


def test_the_console_script_ends_with_1_and_no_traceback() -> None:
    """As a user runs it."""
    result = subprocess.run(
        [sys.executable, "-m", "controller_manager", "--nope"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == (
        "Error: --leader-elect: true (the default) is not supported by this build yet; "
        "run a single manager and give --leader-elect=false"
    )
    assert "Traceback" not in result.stderr


def test_options_errors_keep_every_problem() -> None:
    """For whoever does not print them."""
    with pytest.raises(OptionsError) as caught:
        parse({"v": ["-1"], "leader-elect": ["maybe"]})
    assert caught.value.problems == (
        (
            "--leader-elect: invalid argument: not a truth value: 'maybe'; "
            "write true or false"
        ),
        "--v: must be from 0 to 2147483647, not -1",
    )
    assert callable(main)
    assert callable(_config)


# The registry


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ([], []),
        (["*"], ["deployment-controller", "replicaset-controller"]),
        (["*", "-deployment-controller"], ["replicaset-controller"]),
        (["-deployment", "*"], ["replicaset-controller"]),
        (["replicaset"], ["replicaset-controller"]),
        (["-deployment", "deployment"], []),
    ],
)
def test_a_selection_enables_by_name_alias_and_star(
    selection: list[str], names: list[str]
) -> None:
    """The first word about a controller counts."""
    assert [each.name for each in registry.select(selection)] == names


def test_an_unknown_controller_cannot_be_selected() -> None:
    """Even if nobody checked before."""
    with pytest.raises(registry.UnknownControllerError, match='"nope"'):
        registry.select(["nope"])


def test_every_controller_can_be_loaded() -> None:
    """Its init function exists under the name in the registry."""
    for descriptor in registry.DESCRIPTORS:
        assert callable(descriptor.load())


def test_flags_that_contradict_each_other_are_refused() -> None:
    """Rather than one of them ignored."""
    assert problems("devcluster", "--without-controllers", "--secure-port=1") == [
        (
            "--secure-port: serves the controllers' health and metrics, and there are "
            "none with --without-controllers; leave one of the two out"
        )
    ]


def test_version_is_a_boolean() -> None:
    """As upstream's is, but for its raw form."""
    assert problems("--version=foo") == [
        "--version: invalid argument: must be true or false, not 'foo'"
    ]
