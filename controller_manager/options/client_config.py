"""Makes the config of the client of the API server."""

from typing import Final

from .config import ClientConfig, RateLimit
from .numbers import parse_integer, parse_number
from .options import Options
from .suggestions import suggest

_DEFAULT_QPS: Final = 5.0
_DEFAULT_BURST: Final = 10


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
