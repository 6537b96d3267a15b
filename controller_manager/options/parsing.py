"""Makes the config from flags and file, or reports all problems at once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from .checks import readable_document
from .config import (
    ClientConfig,
    Config,
    GenericConfig,
    LeaderElectionConfig,
    LoggingConfig,
    PodRangesConfig,
    PreviewConfig,
    RateLimit,
)
from .controller_options import ControllerOptions, make_options
from .document import as_tree
from .flag_set import suggest
from .gates import LOGGING_ALPHA, THIS_MINOR, FeatureGates, minor_version, resolve_gates
from .leader_migration import (
    LeaderMigrationConfig,
    read_leader_migration,
    unknown_fields,
)
from .options import KnownControllers, Options, OptionsError
from .serving_config import authentication_config, authorization_config, serving_config
from .values import parse_integer, parse_level, parse_number

_JITTER: Final = 1.2

_DEFAULT_QPS: Final = 5.0

_DEFAULT_BURST: Final = 10


def parse(
    given: Mapping[str, Sequence[str]],
    build: KnownControllers,
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
        client=client_config(options),
        generic=generic_config(options),
        logging=logging_config(options, features),
        serving=serving_config(options),
        authentication=authentication_config(options),
        authorization=authorization_config(options),
        disabled_metrics=options.words("disabled-metrics"),
        controllers=_controller_options(options),
        root_ca_file=options["root-ca-file"],
        pod_ranges=PodRangesConfig(
            allocate=options["allocate-node-cidrs"],
            allocator=options["cidr-allocator-type"],
            cluster=options["cluster-cidr"],
        ),
        preview=preview_config(options),
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


def _check_selection(options: Options) -> None:
    selection = options.words("controllers")
    problems, warnings = options.build.check_selection(selection)
    options.problem("controllers", *problems)
    options.warn("controllers", *warnings)


def _warn_of_inert_flags(options: Options) -> None:
    flags = options.build.flags
    for flag in flags:
        is_given = options.is_set(flag.name) and flag.name != "config"
        if is_given and not flag.inert_upstream and (inert := flags.inert(flag)):
            options.warn(flag.name, f"has no effect, {inert}")


def _check_signers(options: Options) -> None:
    """Check the pairs of files of the signing controller, if this build has it."""
    if options.build.flags.get("cluster-signing-cert-file") is None:
        return
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


def _features(options: Options, minor: int) -> FeatureGates:
    resolved = resolve_gates(options["feature-gates"], options.build.gates, minor)
    ignored = (f"{name} has no effect in this build" for name in resolved.ignored)
    options.problem("feature-gates", *resolved.problems)
    options.warn("feature-gates", *resolved.warnings, *ignored)
    return resolved.gates


def client_config(options: Options) -> ClientConfig:
    """Return the config of the client."""
    limit = _or_default(float(options["kube-api-qps"]), options["kube-api-burst"])
    if limit.qps > 0 and limit.burst < 1:
        options.problem("kube-api-burst", "must not be negative when a QPS is set")
    return ClientConfig(
        kubeconfig=options["kubeconfig"],
        master=options["master"],
        limit=limit,
        write_timeout=options.positive("kube-api-write-timeout"),
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
    rates = options.numbers("controller-kube-api-qps", parse_number)
    bursts = options.numbers("controller-kube-api-burst", _int32)
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


def generic_config(options: Options) -> GenericConfig:
    """Return the config of the daemon itself."""
    return GenericConfig(
        controllers=options.words("controllers"),
        controller_start_interval=options.not_negative("controller-start-interval"),
        controller_shutdown_timeout=options.not_negative("controller-shutdown-timeout"),
        min_resync_period=options.not_negative("min-resync-period"),
        # A negative period is none, as for a timer of Go.
        node_monitor_period=max(0.0, options.seconds("node-monitor-period")),
        api_server_timeout=options.not_negative("wait-for-apiserver-timeout"),
        use_service_account_credentials=options["use-service-account-credentials"],
        profiling=options["profiling"],
        leader_election=_leader_election(options),
        leader_migration=_leader_migration(options),
    )


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
            options.warn(
                f"leader-elect-resource-{name}",
                "without it the lease cannot be taken, and no controller starts",
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
            options.warn(flag, "has no effect without --enable-leader-migration")
        return None
    if not options["leader-elect"]:
        options.warn("enable-leader-migration", "has no effect without --leader-elect")
        return None
    config, problems = read_leader_migration(options[flag])
    if config is None:
        known = readable_document(options[flag])
        # The check of the flag has said one already.
        options.problem(flag, *(each for each in problems if each != known))
        return None
    ignored = (
        f"{each}: there is no such field, it is ignored"
        for each in unknown_fields(options[flag])
    )
    problems, _ = options.build.check_selection(config.components)
    options.warn(flag, *(f"{options[flag]}: {each}" for each in (*ignored, *problems)))
    return config


def preview_config(options: Options) -> PreviewConfig:
    """Return the config of the preview."""
    grace = options.positive("preview-grace")
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
                options.warn(flag, "has no effect without --preview")
    return preview


def logging_config(options: Options, features: FeatureGates) -> LoggingConfig:
    """Return the config of the log."""
    output = options["logging-format"]
    if output not in ("text", "json"):
        options.problem("logging-format", f'must be "text" or "json", not "{output}"')
        output = "text"
    form: Literal["text", "json"] = output
    if options["v"] < 0:
        options.problem("v", f"must not be negative, it is {options['v']}")
    vmodule = options.numbers("vmodule", parse_level)
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


def _controller_options(
    options: Options,
) -> dict[type[ControllerOptions], ControllerOptions]:
    """Return the options of controllers that differ from the defaults."""
    all_made = {
        each: make_options(each, options.__getitem__) for each in options.build.options
    }
    return {each: found for each, found in all_made.items() if found != each()}


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


def configz(config: Config) -> bytes:
    """Return the body of /configz: the effective configuration."""
    body = {"kubecontrollermanager.config.k8s.io": config.document}
    return json.dumps(body, separators=(",", ":")).encode()
