"""Makes the config from flags and file, or reports all problems at once."""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from controller_manager.options import tls
from controller_manager.options.build import Build
from controller_manager.options.checks import readable_document
from controller_manager.options.config import (
    AuthenticationConfig,
    AuthorizationConfig,
    CertificateFiles,
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    LoggingConfig,
    PodRangesConfig,
    PreviewConfig,
    RateLimit,
    RequestHeaderConfig,
    ServingConfig,
)
from controller_manager.options.controller_options import (
    ControllerOptions,
    make_options,
)
from controller_manager.options.document import (
    FileError,
    as_tree,
    defaults,
    read_file,
)
from controller_manager.options.durations import parse_duration
from controller_manager.options.gates import (
    LOGGING_ALPHA,
    FeatureGates,
    resolve_gates,
)
from controller_manager.options.leader_migration import (
    LeaderMigrationConfig,
    read_leader_migration,
    unknown_fields,
)
from controller_manager.options.numbers import (
    parse_integer,
    parse_level,
    parse_number,
)
from controller_manager.options.values import default_value, parse_flag
from controller_manager.options.versions import THIS_MINOR, minor_version

_JITTER: Final = 1.2
_DEFAULT_QPS: Final = 5.0
_DEFAULT_BURST: Final = 10


class OptionsError(Exception):
    """Values that cannot be used: `problems` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Take the problems."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Options:
    """The values of all flags, the origin of each, and the problems."""

    def __init__(self, given: Mapping[str, Sequence[str]], build: Build) -> None:
        """Read the file that ``--config`` names, then the flags, which win over it."""
        self.build = build
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.values = defaults(build.flags)
        self._origins: dict[str, str] = {}
        if texts := given.get("config"):
            self._read(Path(texts[-1]))
        for flag in build.flags:
            if flag.name not in given or flag.name == "config":
                continue
            self._origins[flag.path] = f"--{flag.name}"
            try:
                self.values[flag.path] = parse_flag(flag, given[flag.name])
            except ValueError as error:
                self.problem(flag.name, f"invalid argument: {error}")
                self.values[flag.path] = default_value(flag)

    def _read(self, path: Path) -> None:
        try:
            found = read_file(path, self.build.flags)
        except FileError as error:
            self.problems += error.problems
            return
        # A field with the default value needs no warning.
        self._origins |= {
            field: f"--config {path}: {field}"
            for field, value in found.items()
            if value != self.values.get(field)
        }
        self.values |= found

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - by the flag's type
        """Return the value of a flag."""
        return self.values[self.build.flags[name].path]

    def seconds(self, name: str) -> float:
        """Return the value of a flag that is a duration."""
        return parse_duration(self[name])

    def words(self, name: str) -> tuple[str, ...]:
        """Return the value of a flag that is a list."""
        return tuple(self[name])

    def origin(self, name: str) -> str:
        """Return the origin of a value: the flag, or the file and the field."""
        return self._origins.get(self.build.flags[name].path, f"--{name}")

    def is_set(self, name: str) -> bool:
        """Tell whether a flag or the file sets it."""
        return self.build.flags[name].path in self._origins

    def problem(self, name: str, what: str) -> None:
        """Add a problem with the value of a flag."""
        self.problems.append(f"{self.origin(name)}: {what}")


def parse(
    given: Mapping[str, Sequence[str]],
    build: Build,
    known_problems: Iterable[str] = (),
) -> Config:
    """Return the config for the flags in `given`.

    `given` maps a flag's name to its values as written, in order; the last value
    counts, lists are joined. `build` has all controllers, flags and gates. Raises
    OptionsError with all problems.
    """
    options = Options(given, build)
    options.problems[:0] = known_problems
    _check_selection(options)
    _warn_of_inert_flags(options)
    _check_signers(options)
    _check_values(options)
    emulated = _emulated_minor(options)
    features = _features(options, emulated)
    config = Config(
        client=_client(options),
        generic=_generic(options),
        logging=_logging(options, features),
        serving=_serving(options),
        authentication=_authentication(options),
        authorization=_authorization(options),
        disabled_metrics=options.words("disabled-metrics"),
        controllers=_controller_options(options),
        root_ca_file=options["root-ca-file"],
        pod_ranges=PodRangesConfig(
            allocate=options["allocate-node-cidrs"],
            allocator=options["cidr-allocator-type"],
            cluster=options["cluster-cidr"],
        ),
        preview=_preview(options),
        features=features,
        given_gates=options["feature-gates"],
        emulated_version=f"1.{emulated}",
        document=as_tree(options.values),
        flags=_flag_texts(options),
        warnings=tuple(options.warnings),
    )
    if options.problems:
        raise OptionsError(options.problems)
    return config


def _controller_options(
    options: Options,
) -> dict[type[ControllerOptions], ControllerOptions]:
    """Return the options of controllers that differ from the defaults."""
    all_made = {
        each: make_options(each, options.__getitem__) for each in options.build.options
    }
    return {each: found for each, found in all_made.items() if found != each()}


def _check_selection(options: Options) -> None:
    selection = options.words("controllers")
    problems, warnings = options.build.check_selection(selection)
    for problem in problems:
        options.problem("controllers", problem)
    origin = options.origin("controllers")
    options.warnings += [f"{origin}: {each}" for each in warnings]


def _check_values(options: Options) -> None:
    for flag in options.build.flags:
        if flag.check is not None and (complaint := flag.check(options[flag.name])):
            options.problem(flag.name, complaint)


def _emulated_minor(options: Options) -> int:
    """Return the minor version to emulate; check the one to be compatible with."""
    minors = [THIS_MINOR]
    for flag in ("emulated-version", "min-compatibility-version"):
        try:
            minors.append(minor_version(options.words(flag), minors[-1]))
        except ValueError as error:
            options.problem(flag, str(error))
            return minors[-1]
    return minors[1]


def _warn_of_inert_flags(options: Options) -> None:
    flags = options.build.flags
    for flag in flags:
        if flag.name == "config" or not options.is_set(flag.name):
            continue
        if inert := flags.inert(flag):
            where = options.origin(flag.name)
            options.warnings.append(f"{where}: has no effect, {inert}")


def _check_signers(options: Options) -> None:
    """Check the pairs of files of the signing controller."""
    specific = []
    for signer in (
        "kubelet-serving",
        "kubelet-client",
        "kube-apiserver-client",
        "legacy-unknown",
    ):
        files = [f"cluster-signing-{signer}-{part}-file" for part in ("cert", "key")]
        given = [name for name in files if options[name]]
        specific += given
        if len(given) == 1:
            (absent,) = set(files) - set(given)
            options.problem(given[0], f"must be given together with --{absent}")
    general = [
        name
        for name in ("cluster-signing-cert-file", "cluster-signing-key-file")
        if options[name]
    ]
    if general and specific:
        options.problem(general[0], f"cannot be given together with --{specific[0]}")


def _flag_texts(options: Options) -> dict[str, str]:
    """Return every flag's value as text, for /flagz."""
    values = {
        flag.name: _text(options.values.get(flag.path, ""))
        for flag in options.build.flags
    }
    return values | {"help": "false", "version": "false"}


def _text(value: Any) -> str:  # noqa: ANN401 - any value of the tree
    match value:
        case bool():
            return str(value).lower()
        case list():
            return "[" + ",".join(str(each) for each in value) + "]"
        case dict():
            return ",".join(f"{name}={_text(each)}" for name, each in value.items())
    return str(value)


def _client(options: Options) -> ClientConfig:
    limit = _or_default(float(options["kube-api-qps"]), options["kube-api-burst"])
    if limit.qps > 0 and limit.burst < 1:
        options.problem("kube-api-burst", "must not be negative when a QPS is set")
    return ClientConfig(
        kubeconfig=options["kubeconfig"],
        master=options["master"],
        limit=limit,
        write_timeout=_positive(options, "kube-api-write-timeout"),
        controllers=_limits(options, limit),
        multiplies_rate=options["kube-api-qps"] != 0,
        multiplies_burst=options["kube-api-burst"] != 0,
    )


def _or_default(qps: float, burst: int) -> RateLimit:
    """Return a rate limit in which 0 stands for client-go's default.

    Upstream: RESTClientForConfigAndClient of client-go's rest/config.go. A negative
    rate means no limit.
    """
    return RateLimit(qps or _DEFAULT_QPS, burst or _DEFAULT_BURST)


def _limits(options: Options, limit: RateLimit) -> dict[str, RateLimit]:
    controllers = options.build.names
    rates = _numbers(options, "controller-kube-api-qps", parse_number)
    bursts = _numbers(options, "controller-kube-api-burst", _int32)
    for flag, given in (
        ("controller-kube-api-qps", rates),
        ("controller-kube-api-burst", bursts),
    ):
        for name in given:
            if name not in controllers:
                hint = suggest(name, controllers, "")
                options.problem(flag, f"this build has no controller {name!r}{hint}")
    limits = {
        name: _or_default(
            rates.get(name, limit.qps), int(bursts.get(name, limit.burst))
        )
        for name in {**rates, **bursts}
    }
    for name, each in limits.items():
        if each.qps > 0 and each.burst < 1:
            options.problem(
                "controller-kube-api-burst",
                f"the burst of {name} must not be negative when it has a QPS",
            )
    return limits


def _int32(text: str) -> int:
    return parse_integer(text, 32)


def _numbers(
    options: Options, name: str, convert: Callable[[str], float]
) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for key, text in options[name].items():
        try:
            numbers[key] = convert(text)
        except ValueError:
            wanted = "a number" if convert is parse_number else "a whole number"
            options.problem(name, f"{key}={text}: not {wanted}")
    return numbers


def _generic(options: Options) -> GenericConfig:
    return GenericConfig(
        controllers=options.words("controllers"),
        controller_start_interval=_not_negative(options, "controller-start-interval"),
        controller_shutdown_timeout=_not_negative(
            options, "controller-shutdown-timeout"
        ),
        min_resync_period=_not_negative(options, "min-resync-period"),
        # A negative period is none, as for a timer of Go.
        node_monitor_period=max(0.0, options.seconds("node-monitor-period")),
        api_server_timeout=_not_negative(options, "wait-for-apiserver-timeout"),
        use_service_account_credentials=options["use-service-account-credentials"],
        profiling=options["profiling"],
        leader_election=_leader_election(options),
        leader_migration=_leader_migration(options),
    )


def _preview(options: Options) -> PreviewConfig:
    grace = _positive(options, "preview-grace")
    preview = PreviewConfig(options["preview"], grace, options["preview-dry-run"])
    if preview.enabled and options["use-service-account-credentials"]:
        options.warnings.append(
            "--use-service-account-credentials: has no effect with --preview: a token "
            "of a service account would be a write, so all controllers have the "
            "manager's own identity"
        )
    if not preview.enabled:
        for flag in ("preview-dry-run", "preview-grace"):
            if options.is_set(flag):
                where = options.origin(flag)
                options.warnings.append(f"{where}: has no effect without --preview")
    return preview


def _not_negative(options: Options, name: str) -> float:
    seconds = options.seconds(name)
    if seconds < 0:
        options.problem(name, f"must not be negative, it is {options[name]}")
    return seconds


def _positive(options: Options, name: str) -> float:
    seconds = options.seconds(name)
    if seconds <= 0:
        options.problem(name, f"must be longer than 0s, it is {options[name]}")
    return seconds


def _leader_election(options: Options) -> LeaderElectionConfig:
    config = LeaderElectionConfig(
        # A preview takes no lease: another manager is in charge.
        leader_elect=options["leader-elect"] and not options["preview"],
        lease_duration=options.seconds("leader-elect-lease-duration"),
        renew_deadline=options.seconds("leader-elect-renew-deadline"),
        retry_period=options.seconds("leader-elect-retry-period"),
        resource_name=options["leader-elect-resource-name"],
        resource_namespace=options["leader-elect-resource-namespace"],
    )
    if not config.leader_elect:
        return config
    lock = options["leader-elect-resource-lock"]
    if lock != "leases":
        options.problem("leader-elect-resource-lock", f'must be "leases", not "{lock}"')
    for name in ("name", "namespace"):
        if not options[f"leader-elect-resource-{name}"]:
            options.warnings.append(
                f"{options.origin(f'leader-elect-resource-{name}')}: without it the "
                "lease cannot be taken, and no controller starts"
            )
    if config.renew_deadline <= 0:
        options.problem("leader-elect-renew-deadline", "must be greater than 0")
    elif config.renew_deadline >= config.lease_duration:
        options.problem(
            "leader-elect-renew-deadline",
            f"{options['leader-elect-renew-deadline']} must be less than "
            "--leader-elect-lease-duration, "
            f"which is {options['leader-elect-lease-duration']}",
        )
    if config.retry_period <= 0:
        options.problem("leader-elect-retry-period", "must be greater than 0")
    elif config.renew_deadline <= _JITTER * config.retry_period:
        options.problem(
            "leader-elect-retry-period",
            f"{options['leader-elect-retry-period']} times {_JITTER} (jitter) must be "
            "less than --leader-elect-renew-deadline, "
            f"which is {options['leader-elect-renew-deadline']}",
        )
    return config


def _leader_migration(options: Options) -> LeaderMigrationConfig | None:
    """Return the configuration of leader migration, `None` if it is not enabled."""
    flag = "leader-migration-config"
    if not options["enable-leader-migration"]:
        if options.is_set(flag):
            options.warnings.append(
                f"{options.origin(flag)}: has no effect without "
                "--enable-leader-migration"
            )
        return None
    if not options["leader-elect"]:
        options.warnings.append(
            f"{options.origin('enable-leader-migration')}: has no effect without "
            "--leader-elect"
        )
        return None
    config, problems = read_leader_migration(options[flag])
    if config is None:
        known = readable_document(options[flag])
        for problem in problems:
            if problem != known:  # the check of the flag has said so
                options.problem(flag, problem)
        return None
    origin = f"{options.origin(flag)}: {options[flag]}"
    options.warnings += [
        f"{origin}: {each}: there is no such field, it is ignored"
        for each in unknown_fields(options[flag])
    ]
    problems, _ = options.build.check_selection(config.components)
    options.warnings += [f"{origin}: {each}" for each in problems]
    return config


def _logging(options: Options, features: FeatureGates) -> LoggingConfig:
    output = options["logging-format"]
    if output not in ("text", "json"):
        options.problem("logging-format", f'must be "text" or "json", not "{output}"')
        output = "text"
    form: Literal["text", "json"] = output
    if options["v"] < 0:
        options.problem("v", f"must not be negative, it is {options['v']}")
    vmodule = _numbers(options, "vmodule", parse_level)
    if vmodule and form != "text":
        options.problem("vmodule", "is for --logging-format=text only")
    if not features.is_enabled(LOGGING_ALPHA):
        _refuse_alpha_logging(options)
    return LoggingConfig(
        format=form,
        verbosity=options["v"],
        vmodule=tuple((pattern, int(level)) for pattern, level in vmodule.items()),
        split_stream=options[f"log-{form}-split-stream"],
    )


def _refuse_alpha_logging(options: Options) -> None:
    for form in ("json", "text"):
        for part in ("split-stream", "info-buffer-size"):
            name = f"log-{form}-{part}"
            if options[name] and not _is_zero(options[name]):
                options.problem(
                    name,
                    f"Feature {LOGGING_ALPHA.name} is disabled; give "
                    f"--feature-gates={LOGGING_ALPHA.name}=true as well",
                )


def _is_zero(value: Any) -> bool:  # noqa: ANN401 - a switch or a quantity
    return isinstance(value, str) and not value.strip("0.mkKMGTPEi")


def _serving(options: Options) -> ServingConfig:
    port = options["secure-port"]
    if not 0 <= port <= 65535:  # noqa: PLR2004 - the range of ports
        options.problem("secure-port", f"must be from 0 to 65535, it is {port}")
    certificate, key = options["tls-cert-file"], options["tls-private-key-file"]
    ciphers = _ciphers(options)
    if bool(certificate) != bool(key):
        absent = "tls-private-key-file" if certificate else "tls-cert-file"
        present = "tls-cert-file" if certificate else "tls-private-key-file"
        options.problem(present, f"must be given together with --{absent}")
    return ServingConfig(
        port=port,
        bind_address=options["bind-address"],
        certificate=CertificateFiles(certificate, key) if certificate else None,
        cert_dir=options["cert-dir"],
        sni=tuple(_named_certificates(options)),
        # If only suites of TLS 1.3 are given, no lower version can be offered.
        min_tls_13=_is_tls_13(options)
        or (not ciphers and bool(options["tls-cipher-suites"])),
        ciphers=ciphers,
        curve=_curve(options),
        permit_address_sharing=options["permit-address-sharing"],
        permit_port_sharing=options["permit-port-sharing"],
    )


def _named_certificates(options: Options) -> list[CertificateFiles]:
    found = []
    for text in options["tls-sni-cert-key"]:
        files, colon, names = (part.strip() for part in text.partition(":"))
        certificate, comma, key = (part.strip() for part in files.partition(","))
        is_malformed = not comma or "," in key or (colon and not names)
        if is_malformed or not certificate or not key:
            options.problem(
                "tls-sni-cert-key",
                f"{text!r} must be written as certfile,keyfile or "
                "certfile,keyfile:name,name",
            )
            continue
        listed = (name.strip() for name in names.split(","))
        found.append(
            CertificateFiles(certificate, key, tuple(name for name in listed if name))
        )
    return found


def _is_tls_13(options: Options) -> bool:
    version = options["tls-min-version"]
    if version in ("VersionTLS10", "VersionTLS11"):
        options.warnings.append(
            f"{options.origin('tls-min-version')}: {version} is not offered any more, "
            "VersionTLS12 is the lowest"
        )
    elif version not in ("", "VersionTLS12", "VersionTLS13"):
        options.problem(
            "tls-min-version",
            f"{version!r} is not a version; use VersionTLS12 or VersionTLS13",
        )
    return bool(version == "VersionTLS13")


def _ciphers(options: Options) -> tuple[str, ...]:
    """Return OpenSSL's names of the chosen suites; as in Go, their order is fixed."""
    names = []
    for name in options.words("tls-cipher-suites"):
        if name in tls.CIPHER_SUITES:
            names.append(tls.CIPHER_SUITES[name])
        elif name in tls.INSECURE_SUITES:
            options.warnings.append(
                f"{options.origin('tls-cipher-suites')}: {name} is insecure and is "
                "not offered"
            )
        elif name not in tls.TLS_13_SUITES:
            hint = suggest(name, tls.CIPHER_SUITES, "")
            options.problem("tls-cipher-suites", f"no cipher suite {name}{hint}")
            return ()
    chosen = options.words("tls-cipher-suites")
    if chosen and not names and not set(chosen) & tls.TLS_13_SUITES:
        options.problem("tls-cipher-suites", "none of them is secure enough to offer")
    return tuple(name for name in tls.DEFAULT_CIPHERS if name in names)


def _curve(options: Options) -> str:
    """Return OpenSSL's name of the curve to offer, empty for its own choice.

    Go passes over numbers that it does not know, so they are no problem here, either.
    """
    origin = options.origin("tls-curve-preferences")
    numbers = options["tls-curve-preferences"]
    known = [number for number in numbers if number in tls.CURVES]
    options.warnings += [
        f"{origin}: curve {number} cannot be chosen here"
        for number in numbers
        if number not in tls.CURVES
    ]
    if len(known) == 1:
        return tls.CURVES[known[0]]
    if numbers:
        how_many = "several curves" if known else "no known curves"
        options.warnings.append(f"{origin}: {how_many} are given, OpenSSL chooses")
    return ""


def _authentication(options: Options) -> AuthenticationConfig:
    for name in (
        "allowed-names",
        "extra-headers-prefix",
        "group-headers",
        "uid-headers",
        "username-headers",
    ):
        if any(not each.strip() for each in options[f"requestheader-{name}"]):
            options.problem(f"requestheader-{name}", "has an empty entry")
    return AuthenticationConfig(
        kubeconfig=options["authentication-kubeconfig"],
        skip_lookup=options["authentication-skip-lookup"],
        tolerate_lookup_failure=options["authentication-tolerate-lookup-failure"],
        cache_ttl=options.seconds("authentication-token-webhook-cache-ttl"),
        client_ca_file=options["client-ca-file"],
        request_header=RequestHeaderConfig(
            client_ca_file=options["requestheader-client-ca-file"],
            allowed_names=options.words("requestheader-allowed-names"),
            username_headers=options.words("requestheader-username-headers"),
            uid_headers=options.words("requestheader-uid-headers"),
            group_headers=options.words("requestheader-group-headers"),
            extra_prefixes=options.words("requestheader-extra-headers-prefix"),
        ),
    )


def _authorization(options: Options) -> AuthorizationConfig:
    paths = options.words("authorization-always-allow-paths")
    for path in paths:
        if "*" in path[:-1]:
            options.problem(
                "authorization-always-allow-paths",
                f"{path!r}: a * is allowed at the end only",
            )
    return AuthorizationConfig(
        kubeconfig=options["authorization-kubeconfig"],
        always_allow_paths=paths,
        authorized_ttl=options.seconds("authorization-webhook-cache-authorized-ttl"),
        unauthorized_ttl=options.seconds(
            "authorization-webhook-cache-unauthorized-ttl"
        ),
    )


def _features(options: Options, minor: int) -> FeatureGates:
    resolved = resolve_gates(options["feature-gates"], options.build.gates, minor)
    for problem in resolved.problems:
        options.problem("feature-gates", problem)
    origin = options.origin("feature-gates")
    options.warnings += [f"{origin}: {each}" for each in resolved.warnings]
    options.warnings += [
        f"{origin}: {name} has no effect in this build" for name in resolved.ignored
    ]
    return resolved.gates


def suggest(name: str, known: Iterable[str], prefix: str = "--") -> str:
    """Return ``; did you mean …?`` for the nearest known names, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(f"{prefix}{each}" for each in close) + "?"


def configz(config: Config) -> bytes:
    """Return the body of /configz: the effective configuration."""
    body = {"kubecontrollermanager.config.k8s.io": config.document}
    return json.dumps(body, separators=(",", ":")).encode()
