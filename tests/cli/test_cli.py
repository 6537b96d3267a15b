"""The command line accepts upstream's flags, and names the problems."""

import io
import json
import os
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from controller_manager.cli.command import log_flags, main, make_command
from controller_manager.cli.flags import normalised, split
from controller_manager.controllers.apps.deployment import DeploymentOptions
from controller_manager.controllers.apps.replicaset import ReplicaSetOptions
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import (
    CertificateFiles,
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    LoggingConfig,
    RateLimit,
    ServingConfig,
)
from controller_manager.options.document import as_tree, defaults
from controller_manager.options.durations import format_duration, parse_duration
from controller_manager.options.gates import FeatureGates
from controller_manager.options.options import OptionsError
from controller_manager.options.parsing import configz, parse
from controller_manager.options.values import parse_bool
from controller_manager.registry import registry
from controller_manager.serving.certificates import self_signed
from controller_manager.version import VERSION
from tests.distributions import completed

DATA = Path(__file__).parent.parent / "data"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(make_command(), list(arguments))


NAMED_REPLICA = (
    "plain,replicaset-controller",
    "plain,replicationcontroller-controller",
)
"""The completions of a shell for ``repli``."""


def problems(*arguments: str) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 1
    lines: list[str] = result.output.splitlines()
    assert all(line.startswith("Error: ") for line in lines), lines
    return [line.removeprefix("Error: ") for line in lines]


def last_line(*flags: str) -> str:
    """Return the last line of a daemon that ends, as no process listens on port 1."""
    result = run("--master=http://127.0.0.1:1", *flags)
    assert (result.exit_code, "Traceback" in result.output) == (1, False)
    return str(result.output.splitlines()[-1])


def config_of(given: Mapping[str, Sequence[str]]) -> Config:
    return parse(given, registry())


def refused(given: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    with pytest.raises(OptionsError) as caught:
        config_of(given)
    return caught.value.problems


def bare(config: Config) -> Config:
    return replace(config, document={}, flags={})


def test_without_flags_the_config_has_the_defaults() -> None:
    assert bare(config_of({})) == Config()


def test_flags_become_one_frozen_config() -> None:
    config = config_of(
        {
            "kubeconfig": ["k"],
            "master": ["m"],
            "controllers": ["deployment", "-replicaset"],
            "concurrent-deployment-syncs": ["7"],
            "concurrent-replicaset-syncs": ["8"],
            "kube-api-qps": ["99.5"],
            "kube-api-burst": ["200"],
            "controller-kube-api-qps": ["deployment-controller=7"],
            "controller-kube-api-burst": [
                "deployment-controller=9,replicaset-controller=5"
            ],
            "controller-start-interval": ["1m30s"],
            "controller-shutdown-timeout": ["1s"],
            "kube-api-write-timeout": ["5m"],
            "wait-for-apiserver-timeout": ["3s"],
            "min-resync-period": ["1h"],
            "feature-gates": ["WatchListClient=false,AllAlpha=false"],
            "v": ["4"],
            "vmodule": ["queue=6,informers/*=5"],
            "leader-elect-lease-duration": ["30s"],
            "secure-port": ["0"],
            "tls-min-version": ["VersionTLS13"],
            "tls-cipher-suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            "tls-curve-preferences": ["24"],
            "tls-sni-cert-key": ["a.crt,a.key:*.a,b", "c.crt,c.key"],
            "use-service-account-credentials": ["true"],
        }
    )
    assert bare(config) == Config(
        client=ClientConfig(
            kubeconfig="k",
            master="m",
            limit=RateLimit(99.5, 200),
            write_timeout=300,
            controllers={
                "deployment-controller": RateLimit(7.0, 9),
                "replicaset-controller": RateLimit(99.5, 5),
            },
        ),
        generic=GenericConfig(
            controllers=("deployment", "-replicaset"),
            controller_start_interval=90,
            controller_shutdown_timeout=1,
            min_resync_period=3600,
            api_server_timeout=3,
            use_service_account_credentials=True,
            leader_election=LeaderElectionConfig(lease_duration=30),
        ),
        logging=LoggingConfig(verbosity=4, vmodule=(("queue", 6), ("informers/*", 5))),
        serving=ServingConfig(
            port=0,
            min_tls_version=ssl.TLSVersion.TLSv1_3,
            ciphers=("ECDHE-RSA-AES128-GCM-SHA256",),
            curve="secp384r1",
            sni=(
                CertificateFiles("a.crt", "a.key", ("*.a", "b")),
                CertificateFiles("c.crt", "c.key"),
            ),
        ),
        controllers={
            DeploymentOptions: DeploymentOptions(7),
            ReplicaSetOptions: ReplicaSetOptions(8),
        },
        features=FeatureGates({"WatchListClient": False}),
        given_gates={"WatchListClient": False, "AllAlpha": False},
    )
    assert config.client.limit_of("deployment-controller") == RateLimit(7.0, 9)
    assert config.client.limit_of("other") == RateLimit(99.5, 200)


def test_every_flag_of_upstream_is_there() -> None:
    recorded = {
        entry["flag"]: (section, entry["type"], entry.get("default"))
        for section, entries in json.loads((DATA / "flags.json").read_text()).items()
        if section != "Global"
        for entry in entries
    }
    empty = ("0", "0s", "false", None)
    types = {"colonSeparatedMultimapStringString": "gates", "stringToString": "pairs"}
    here = {}
    for flag in registry().flags:
        shown = None if flag.default in empty else flag.default
        here[flag.name] = (flag.section, flag.type, shown)
    for name, (section, type_, default) in recorded.items():
        plain = (default or "").strip("[]") or None
        assert here[name] == (section, types.get(type_, type_), plain), name
    assert set(here) - set(recorded) == {
        "config",
        "controller-kube-api-burst",
        "controller-kube-api-qps",
        "kube-api-write-timeout",
        "preview",
        "preview-dry-run",
        "preview-grace",
        "statefulset-replace-stuck-pods",
        "vmodule",
        "wait-for-apiserver-timeout",
    }


def test_kubeadms_manifest_starts_as_it_is() -> None:
    """Without a warning: upstream ignores --cluster-name, too."""
    manifest = yaml.safe_load(
        (DATA / "kubeadm-kube-controller-manager.yaml").read_text()
    )
    command = manifest["spec"]["containers"][0]["command"]
    flags = [argument.removeprefix("--").partition("=") for argument in command[1:]]
    config = config_of({name: [value] for name, _, value in flags})
    assert config.generic.use_service_account_credentials
    assert config.serving.bind_address == "127.0.0.1"
    assert config.authentication.client_ca_file == "/etc/kubernetes/pki/ca.crt"
    assert config.warnings == ()


PROBLEMS = yaml.safe_load(Path(__file__).with_name("problems.yaml").read_text())


@pytest.mark.parametrize("line", PROBLEMS)
def test_a_command_line_is_refused_with_a_line_for_each_problem(line: str) -> None:
    assert problems(*line.split()) == PROBLEMS[line]


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
    ctx = make_command().make_context("test", ["--help"], resilient_parsing=True)
    texts = normalised(ctx, arguments)
    assert parse_bool(texts[-1].partition("=")[2]) is leader_elect
    assert all(each.startswith("--leader-elect=") for each in texts)


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("0", 0, "0s"),
        ("10s", 10, "10s"),
        ("1m30s", 90, "1m30s"),
        ("1.5h", 5400, "1h30m0s"),
        ("250ms", 0.25, "250ms"),
        ("-1s", -1, "-1s"),
        ("12h", 43200, "12h0m0s"),
        ("1500us", 0.0015, "1.5ms"),
        ("61s", 61, "1m1s"),
    ],
)
def test_durations_are_gos(text: str, seconds: float, canonical: str) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert format_duration(seconds) == canonical


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1x", "1s2", "1 s", "99999999h", "9" * 400 + "s"]
)
def test_a_malformed_duration_is_refused(text: str) -> None:
    """A bare number has no unit."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_help_comes_in_sections() -> None:
    text = run("--help").output
    sections = (
        "Generic flags:",
        "Secure serving flags:",
        "Deployment-controller flags:",
    )
    positions = [text.index(section) for section in sections]
    assert positions == sorted(positions)
    for flag in registry().flags:
        assert f"--{flag.name}" in text
    assert "      --min-resync-period duration\n" in text
    assert "(default 12h0m0s)" in text
    assert "(default [*])" in text
    assert "  -v, --v Level\n" in text


def test_help_begins_with_what_people_need() -> None:
    """Usage, examples, commands and ten flags fit on one screen, before all flags."""
    lines = run("--help").output.splitlines()
    titles = [
        "Usage:",
        "Examples:",
        "Available Commands:",
        "Flags that are used most:",
        "All flags, by section:",
    ]
    positions = [lines.index(title) for title in titles]
    assert positions == sorted(positions)
    assert positions[-1] <= 50
    first = [
        each.split()[0].removeprefix("--")
        for each in lines[positions[3] + 1 : positions[4]]
        if each.startswith("  --")
    ]
    assert len(first) == 10
    assert [each for each in first if each not in registry().flags.names] == []


def test_the_help_of_config_shows_types_as_the_main_help_does() -> None:
    main, config = run("--help").output, run("config", "--help").output
    assert config.startswith("Print the effective configuration")
    assert "\nUsage:\n  controller-manager config [flags]\n\n" in config
    start, end = "\nDebugging flags:\n", "\nGlobal flags:\n"
    flags = [text[text.index(start) : text.index(end)] for text in (main, config)]
    assert flags[0] == flags[1]
    for line in (
        "      --kube-api-qps float\n",
        "      --min-resync-period duration\n",
        "      --secure-port int\n",
        "      --kubeconfig string\n",
    ):
        assert line in config
    assert "TEXT" not in config


@pytest.mark.parametrize(
    "command",
    [
        *("completion", "config", "crds", "demo", "devcluster", "doctor", "help"),
        "roles",
        "version",
    ],
)
def test_help_about_a_command_is_its_help(command: str) -> None:
    result = run("help", command)
    assert (result.exit_code, result.output) == (0, run(command, "--help").output)


def test_help_alone_is_the_main_help() -> None:
    result = run("help")
    assert (result.exit_code, result.output) == (0, run("--help").output)
    assert "\n  help        Show the help of a command, or the main help.\n" in (
        result.output
    )


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--version=raw",), ("version",)]
)
def test_the_version_names_both(arguments: Sequence[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.output) == (
        0,
        f"Kubernetes v1.36.2 (controller-manager {VERSION})\n",
    )


def test_a_value_that_looks_like_a_subcommand_stays_a_value() -> None:
    arguments = ["--controllers", "demo", "-v", "2", "demo", "-v"]
    assert split(arguments, "demo".__eq__, registry()) == (
        ["--controllers", "demo", "-v", "2"],
        ["demo", "-v"],
    )


FILES = yaml.safe_load(Path(__file__).with_name("files.yaml").read_text())
HEAD = """\
apiVersion: kubecontrollermanager.config.k8s.io/v1alpha1
kind: KubeControllerManagerConfiguration"""


@pytest.mark.parametrize(
    ("flag", "text", "said"),
    [(flag, text, said) for flag, rows in FILES.items() for text, said in rows],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, flag: str, text: str, said: list[str]
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text.replace("HEAD", HEAD).replace("NESTED", "[" * 1000) + "\n")
    found = problems("--master=http://x", f"--{flag}={file}")
    expected = [each.replace("<file>", str(file)) for each in said]
    assert len(found) == len(expected)
    for line, wanted in zip(found, expected, strict=True):
        start = wanted.removesuffix("…")
        assert (line if start == wanted else line[: len(start)]) == start


def test_an_unreachable_server_is_one_line() -> None:
    """Within the timeout that the user sets; no process listens on port 1."""
    flags = ("--secure-port=0", "--wait-for-apiserver-timeout=1ms")
    assert last_line(*flags) == (
        "Error: failed to wait for apiserver being healthy within 0.001 s: "
        "GET /healthz at 127.0.0.1:1: cannot connect: Connection refused"
    )


def test_a_certificate_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    """With flags, files and the reason, before the server starts."""
    for name in "ab":
        pair = self_signed(name, ["x"])
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    certificate, key = f"{tmp_path}/a.crt", f"{tmp_path}/b.key"
    flags = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    assert last_line(*flags) == (
        f"Error: --tls-cert-file {certificate} with --tls-private-key-file {key}: "
        "cannot be used: the key does not match the certificate"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        ("no certificate", "there is no PEM block in it"),
    ],
)
def test_a_root_ca_file_that_cannot_be_used_is_one_line(
    tmp_path: Path, content: str | None, problem: str
) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_text(content)
    line = f"Error: --root-ca-file: {path}: {problem}"
    assert last_line(f"--root-ca-file={path}") == line


def test_controllers_that_send_many_requests_have_a_higher_limit() -> None:
    config = config_of({"controller-kube-api-qps": ["namespace-controller=7"]})
    factors = {
        each.name: (each.qps_factor, each.burst_factor)
        for each in registry().descriptors
    }
    limits = {
        name: config.client.limit_of(name, *factors[name])
        for name in (
            "garbage-collector-controller",
            "namespace-controller",
            "ttl-controller",
        )
    }
    assert limits == {
        "garbage-collector-controller": RateLimit(40, 30),
        "namespace-controller": RateLimit(7, 30),
        "ttl-controller": RateLimit(20, 30),
    }
    assert ClientConfig().limit_of(
        "namespace-controller", *factors["namespace-controller"]
    ) == RateLimit(400, 3000)


@pytest.mark.parametrize(("verbosity", "logged"), [(0, False), (1, True)])
def test_flags_are_logged_at_verbosity_1(verbosity: int, *, logged: bool) -> None:
    log = io.StringIO()
    logger = make_logger(output="json", verbosity=verbosity, stream=log)
    log_flags(config_of({"v": ["7"]}), logger)
    lines = [json.loads(line)["msg"] for line in log.getvalue().splitlines()]
    names = sorted((*registry().flags.names, "help", "version")) if logged else []
    assert [each.split("=")[0] for each in lines] == [f"FLAG: --{n}" for n in names]
    assert ('FLAG: --v="7"' in lines) is logged


@pytest.mark.parametrize(
    ("given", "plain", "namespaces"),
    [
        ({"kube-api-qps": ["0"]}, RateLimit(5, 30), RateLimit(5, 3000)),
        ({"kube-api-burst": ["0"]}, RateLimit(20, 10), RateLimit(400, 10)),
        ({"kube-api-qps": ["-1"]}, RateLimit(-1, 30), RateLimit(-20, 3000)),
        (
            {"controller-kube-api-qps": ["namespace-controller=0"]},
            RateLimit(20, 30),
            RateLimit(5, 30),
        ),
    ],
)
def test_a_rate_limit_of_zero_is_client_gos_default(
    given: Mapping[str, Sequence[str]], plain: RateLimit, namespaces: RateLimit
) -> None:
    client = config_of(given).client
    factors = registry()["namespace-controller"]
    assert client.limit_of("ttl-controller") == plain
    assert (
        client.limit_of(
            "namespace-controller", factors.qps_factor, factors.burst_factor
        )
        == namespaces
    )


def test_the_console_script_ends_with_1_and_no_traceback() -> None:
    """As a user runs it."""
    result = completed(sys.executable, "-m", "controller_manager", "--nope")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: unknown flag: --nope\n"


# The configuration file


def test_the_tree_has_upstreams_shape() -> None:
    upstream = json.loads((DATA / "configz-default.json").read_text())

    def missing(theirs: object, ours: object, path: str) -> list[str]:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            return [
                each
                for key in theirs
                for each in missing(theirs[key], ours.get(key), f"{path}.{key}")
            ]
        return [] if theirs == ours else [f"{path}: {theirs!r} is here {ours!r}"]

    ours = json.loads(configz(config_of({})))
    assert missing(upstream, ours, "") == []


def write(path: Path, **sections: object) -> str:
    head = {
        "apiVersion": "kubecontrollermanager.config.k8s.io/v1alpha1",
        "kind": "KubeControllerManagerConfiguration",
    }
    file = path / "config.yaml"
    file.write_text(yaml.safe_dump({**head, **sections}))
    return str(file)


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        Generic={
            "ClientConnection": {"qps": 50, "burst": 100},
            "Controllers": ["deployment-controller"],
            "ControllerKubeAPIQPS": {"deployment-controller": 9},
        },
        FeatureGates={"WatchListClient": False},
        SecureServing={"SecurePort": 0},
    )
    config = config_of({"config": [file], "kube-api-qps": ["70"]})
    assert config.client.limit == RateLimit(70, 100)
    assert config.client.limit_of("deployment-controller") == RateLimit(9, 100)
    assert config.generic.controllers == ("deployment-controller",)
    assert config.features == FeatureGates({"WatchListClient": False})
    assert config.serving.port == 0


def test_what_config_prints_can_be_read_again(tmp_path: Path) -> None:
    printed = run("config", "--kube-api-qps=33", "--v=3", "--leader_elect=false")
    assert printed.exit_code == 0
    file = tmp_path / "effective.yaml"
    file.write_text(printed.output)
    again = config_of({"config": [str(file)]})
    given = {"kube-api-qps": ["33"], "v": ["3"], "leader-elect": ["false"]}
    assert again.document == config_of(given).document
    assert again.warnings == ()
    assert "&id" not in printed.output
    assert again.client.limit.qps == 33


def test_a_value_may_look_like_a_flag() -> None:
    result = run("config", "--controllers", "-deployment-controller,*", "-v", "3")
    assert result.exit_code == 0
    document = yaml.safe_load(result.output)
    assert document["Generic"]["Controllers"] == ["-deployment-controller", "*"]
    assert document["Logs"]["V"] == 3


def test_every_path_has_a_default_that_its_type_allows() -> None:
    assert set(as_tree(defaults(registry().flags))) > {
        "Generic",
        "SecureServing",
        "Authentication",
    }


def test_a_shell_can_complete() -> None:
    for shell in ("bash", "fish", "zsh"):
        result = run("completion", shell)
        assert result.exit_code == 0
        assert "_CONTROLLER_MANAGER_COMPLETE" in result.output


def test_a_missing_argument_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Click writes each choice on a line of its own."""
    monkeypatch.setattr("sys.argv", ["controller-manager", "completion"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (
        1,
        "Error: Missing argument '{bash|fish|zsh}'. Choose from: bash, fish, zsh\n",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("controller-manager --kube-api-q", {"plain,--kube-api-qps"}),
        ("controller-manager dev", {"plain,devcluster"}),
        (
            "controller-manager config --leader-elect-ret",
            {"plain,--leader-elect-retry-period"},
        ),
        ("controller-manager --controllers repli", {*NAMED_REPLICA}),
        ("controller-manager --controllers = repli", {*NAMED_REPLICA}),
        ("controller-manager config --controllers=repli", {*NAMED_REPLICA}),
        (
            "controller-manager --controllers *,-ttl-a",
            {"plain,*,-ttl-after-finished-controller"},
        ),
    ],
)
def test_flags_and_commands_are_completed(words: str, expected: set[str]) -> None:
    environment = {
        **os.environ,
        "_CONTROLLER_MANAGER_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    program = (sys.executable, "-m", "controller_manager")
    result = completed(*program, env=environment)
    assert set(result.stdout.split()) == expected


@pytest.mark.parametrize("command", ["devcluster", "demo"])
def test_without_the_extra_a_checkout_is_named_as_what_to_install(command: str) -> None:
    code = (
        "import sys; sys.modules['rich'] = None; sys.modules['rich.console'] = None; "
        "from controller_manager.cli import main; main()"
    )
    result = completed(sys.executable, "-c", code, command)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: the development cluster needs the package rich.console; install it in "
        "a checkout of this project with: pip install '.[devcluster]'\n"
    )
