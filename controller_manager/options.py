"""Every option: one table of flags, and the frozen config that they become.

Names, types and defaults are kube-controller-manager's. The table is what the
command line is generated from; `parse` checks all values at once and returns
either a config or every problem, one line each.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

FlagType = Literal["bool", "int", "int32", "float32", "duration", "string", "strings"]

DEFAULT_SECURE_PORT: Final = 10257


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `default` as a user would write it, `None` for an empty one."""

    name: str
    section: str
    type: FlagType
    default: str | None
    help: str
    value_name: str = ""
    short: str = ""


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How to reach the API server, and how fast."""

    kubeconfig: str = ""
    master: str = ""
    qps: float = 20.0
    burst: int = 30


@dataclass(frozen=True, slots=True)
class GenericConfig:
    """What concerns all controllers; times are in seconds."""

    controllers: tuple[str, ...] = ("*",)
    controller_start_interval: float = 0.0
    controller_shutdown_timeout: float = 10.0
    min_resync_period: float = 43200.0
    api_server_timeout: float = 10.0
    leader_elect: bool = True


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """How to log."""

    format: Literal["text", "json"] = "text"
    verbosity: int = 0


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """Where to serve metrics and health; port 0 serves nothing."""

    port: int = DEFAULT_SECURE_PORT


@dataclass(frozen=True, slots=True)
class ConcurrencyConfig:
    """How many objects a controller works on at a time."""

    concurrent_syncs: int = 5


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The feature gates that have an effect in this build."""

    watch_list_client: bool = True
    deployment_replica_set_terminating_replicas: bool = True


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the daemon is told."""

    client: ClientConfig = field(default_factory=ClientConfig)
    generic: GenericConfig = field(default_factory=GenericConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    serving: ServingConfig = field(default_factory=ServingConfig)
    deployment: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    replicaset: ConcurrencyConfig = field(default_factory=ConcurrencyConfig)
    features: FeatureGates = field(default_factory=FeatureGates)
    warnings: tuple[str, ...] = ()


FLAGS: Final = (
    Flag(
        "controller-shutdown-timeout",
        "Generic",
        "duration",
        "10s",
        "How long syncs in progress may go on after a signal to stop.",
    ),
    Flag(
        "controller-start-interval",
        "Generic",
        "duration",
        "0s",
        "Interval between starting controllers; each wait is lengthened at random "
        "by up to as much again.",
    ),
    Flag(
        "controllers",
        "Generic",
        "strings",
        "*",
        "A list of controllers to enable. '*' enables all on-by-default controllers, "
        "'foo' enables the controller named 'foo', '-foo' disables the controller "
        "named 'foo'.",
    ),
    Flag(
        "feature-gates",
        "Generic",
        "strings",
        None,
        "A set of key=value pairs that switch features on or off. Options are:\n"
        "DeploymentReplicaSetTerminatingReplicas=true|false (BETA - default=true)\n"
        "WatchListClient=true|false (BETA - default=true)",
        value_name="key=true|false,...",
    ),
    Flag(
        "kube-api-burst",
        "Generic",
        "int32",
        "30",
        "Burst to use while talking with the Kubernetes API server, per controller.",
    ),
    Flag(
        "kube-api-qps",
        "Generic",
        "float32",
        "20",
        "QPS to use while talking with the Kubernetes API server, per controller.",
        value_name="float",
    ),
    Flag(
        "leader-elect",
        "Generic",
        "bool",
        "true",
        "Gain leadership before acting. This build cannot yet: run a single manager "
        "and give --leader-elect=false.",
    ),
    Flag(
        "min-resync-period",
        "Generic",
        "duration",
        "12h0m0s",
        "The resync period of informers is random between this and twice this.",
    ),
    Flag(
        "wait-for-apiserver-timeout",
        "Generic",
        "duration",
        "10s",
        "How long to wait for the API server to be healthy at start-up.",
    ),
    Flag(
        "secure-port",
        "Secure serving",
        "int",
        str(DEFAULT_SECURE_PORT),
        "The port on which to serve /healthz and /metrics, for now over plain HTTP "
        "on the loopback interface only. If 0, nothing is served.",
    ),
    Flag(
        "concurrent-deployment-syncs",
        "Deployment-controller",
        "int32",
        "5",
        "The number of deployment objects that are allowed to sync concurrently. "
        "Larger number = more responsive deployments, but more CPU (and network) load.",
    ),
    Flag(
        "concurrent-replicaset-syncs",
        "Replicaset-controller",
        "int32",
        "5",
        "The number of replica sets that are allowed to sync concurrently. "
        "Larger number = more responsive replica management, but more CPU (and "
        "network) load.",
    ),
    Flag(
        "logging-format",
        "Logs",
        "string",
        "text",
        'Sets the log format. Permitted formats: "json", "text".',
    ),
    Flag(
        "v",
        "Logs",
        "int",
        "0",
        "Number for the log level verbosity.",
        value_name="Level",
        short="v",
    ),
    Flag(
        "kubeconfig",
        "Misc",
        "string",
        None,
        "Path to kubeconfig file with authorization and master location information "
        "(the master location can be overridden by the master flag).",
    ),
    Flag(
        "master",
        "Misc",
        "string",
        None,
        "The address of the Kubernetes API server (overrides any value in kubeconfig).",
    ),
)
"""In the order of upstream's help: sections, and names within each."""

FLAGS_BY_NAME: Final[Mapping[str, Flag]] = {flag.name: flag for flag in FLAGS}

_GATES: Final = {
    "WatchListClient": "watch_list_client",
    "DeploymentReplicaSetTerminatingReplicas": (
        "deployment_replica_set_terminating_replicas"
    ),
}

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


class OptionsError(Exception):
    """Values that cannot be used: `problems` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Take the problems."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def parse_duration(text: str) -> float:
    """Return the seconds that a Go duration such as ``1m30s`` means.

    Raises ValueError for anything else.
    """
    if text in ("0", "+0", "-0"):
        return 0.0
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text.lstrip("+-") if text[:1] in "+-" else text
    parts = _DURATION_PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        msg = f"not a duration: {text!r}; write it as 10s, 1m30s or 12h"
        raise ValueError(msg)
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def parse_bool(text: str) -> bool:
    """Return the truth value that Go's strconv.ParseBool sees in `text`."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    msg = f"not a truth value: {text!r}; write true or false"
    raise ValueError(msg)


def _parse_integer(text: str, bits: int) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        msg = f"not a whole number: {text!r}"
        raise ValueError(msg)
    number = int(text)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        msg = f"out of range: {text}"
        raise ValueError(msg)
    return number


def _parse_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        msg = f"not a number: {text!r}"
        raise ValueError(msg)
    return number


class _Values:
    """The flags as given, converted one by one, problems collected."""

    def __init__(self, given: Mapping[str, Sequence[str]]) -> None:
        self._given = given
        self.problems: list[str] = []

    def is_set(self, name: str) -> bool:
        return bool(self._given.get(name))

    def _text(self, name: str) -> str:
        texts = self._given.get(name)
        return texts[-1] if texts else FLAGS_BY_NAME[name].default or ""

    def string(self, name: str) -> str:
        return self._text(name)

    def strings(self, name: str) -> tuple[str, ...]:
        texts = self._given.get(name) or (FLAGS_BY_NAME[name].default or "",)
        return tuple(
            part.strip() for text in texts for part in text.split(",") if part.strip()
        )

    def boolean(self, name: str) -> bool:
        try:
            return parse_bool(self._text(name))
        except ValueError as error:
            self._invalid(name, error)
            return False

    def integer(self, name: str, *, at_least: int, at_most: int = 2**31 - 1) -> int:
        bits = 64 if FLAGS_BY_NAME[name].type == "int" else 32
        try:
            number = _parse_integer(self._text(name), bits)
        except ValueError as error:
            self._invalid(name, error)
            return at_least
        if not at_least <= number <= at_most:
            self.problem(name, f"must be from {at_least} to {at_most}, not {number}")
        return number

    def floating(self, name: str) -> float:
        try:
            return _parse_float(self._text(name))
        except ValueError as error:
            self._invalid(name, error)
            return 0.0

    def duration(self, name: str, *, at_least: float = 0.0) -> float:
        try:
            seconds = parse_duration(self._text(name))
        except ValueError as error:
            self._invalid(name, error)
            return at_least
        if seconds < at_least:
            self.problem(name, f"must not be below {at_least:g}s")
        return seconds

    def _invalid(self, name: str, error: ValueError) -> None:
        self.problem(name, f"invalid argument: {error}")

    def problem(self, name: str, what: str) -> None:
        self.problems.append(f"--{name}: {what}")


def parse(
    given: Mapping[str, Sequence[str]], known_controllers_problems: Iterable[str] = ()
) -> Config:
    """Return the config that the flags in `given` make.

    `given` maps a flag's name to its values as written, in order; the last of
    them counts, lists are joined. Raises OptionsError with every problem.
    """
    values = _Values(given)
    features, warnings = _feature_gates(values)
    config = Config(
        client=ClientConfig(
            kubeconfig=values.string("kubeconfig"),
            master=values.string("master"),
            qps=values.floating("kube-api-qps"),
            burst=values.integer("kube-api-burst", at_least=-(2**31)),
        ),
        generic=GenericConfig(
            controllers=values.strings("controllers"),
            controller_start_interval=values.duration("controller-start-interval"),
            controller_shutdown_timeout=values.duration("controller-shutdown-timeout"),
            min_resync_period=values.duration("min-resync-period"),
            api_server_timeout=values.duration("wait-for-apiserver-timeout"),
            leader_elect=values.boolean("leader-elect"),
        ),
        logging=LoggingConfig(
            format=_log_format(values), verbosity=values.integer("v", at_least=0)
        ),
        serving=ServingConfig(
            port=values.integer("secure-port", at_least=0, at_most=65535)
        ),
        deployment=ConcurrencyConfig(
            values.integer("concurrent-deployment-syncs", at_least=1)
        ),
        replicaset=ConcurrencyConfig(
            values.integer("concurrent-replicaset-syncs", at_least=1)
        ),
        features=features,
        warnings=warnings,
    )
    if config.client.qps > 0 and config.client.burst < 1:
        values.problem(
            "kube-api-burst", "must be at least 1 when --kube-api-qps is set"
        )
    if config.generic.leader_elect:
        default = "" if values.is_set("leader-elect") else " (the default)"
        values.problem(
            "leader-elect",
            f"true{default} is not supported by this build yet; "
            "run a single manager and give --leader-elect=false",
        )
    values.problems += known_controllers_problems
    if values.problems:
        raise OptionsError(values.problems)
    return config


def _log_format(values: _Values) -> Literal["text", "json"]:
    match values.string("logging-format"):
        case "text":
            return "text"
        case "json":
            return "json"
        case other:
            values.problem("logging-format", f'must be "text" or "json", not "{other}"')
            return "text"


def _feature_gates(values: _Values) -> tuple[FeatureGates, tuple[str, ...]]:
    gates: dict[str, bool] = {}
    warnings: list[str] = []
    for entry in values.strings("feature-gates"):
        # 1.36 accepts a component before the gate: kube:SomeFeature=true.
        name, equals, text = entry.removeprefix("kube:").partition("=")
        try:
            enabled = parse_bool(text)
        except ValueError:
            equals = ""
            enabled = False
        if not equals:
            values.problem("feature-gates", f"{entry!r} is not name=true or name=false")
        elif name in _GATES:
            gates[_GATES[name]] = enabled
        else:
            warnings.append(f"feature gate {name} has no effect in this build")
    return FeatureGates(**gates), tuple(warnings)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for the nearest known names, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(f"--{each}" for each in close) + "?"
