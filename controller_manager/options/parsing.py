"""Makes the config from flags and file, or reports all problems at once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .build import Build
from .client_config import client_config
from .config import Config, PodRangesConfig
from .controller_options import ControllerOptions, make_options
from .document import as_tree
from .gates import FeatureGates, resolve_gates
from .generic_config import generic_config, preview_config
from .logging_config import logging_config
from .options import Options, OptionsError
from .serving_config import authentication_config, authorization_config, serving_config
from .versions import THIS_MINOR, minor_version


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
        if flag.inert_upstream:
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


def configz(config: Config) -> bytes:
    """Return the body of /configz: the effective configuration."""
    body = {"kubecontrollermanager.config.k8s.io": config.document}
    return json.dumps(body, separators=(",", ":")).encode()
