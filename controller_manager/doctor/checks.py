"""All checks of an examination, in the order of the report, and those that are short.

They ask whether the API server serves what the controllers need, which controllers do
not start with this config, whether callers of the endpoints can be authenticated and
authorized, and whether the pod of this process depends on its own controllers.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from controller_manager.api.meta import segment
from controller_manager.client.discovery.resources import discover
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Forbidden, NotFound
from controller_manager.clock import Clock
from controller_manager.manager import selection
from controller_manager.manager.permissions import (
    AUTHENTICATE,
    AUTHORIZE,
    READ_AUTHORITIES,
)
from controller_manager.manager.startup import unserved_resources
from controller_manager.options.config import AuthenticationConfig, Config
from controller_manager.runtime.permissions import Permission

from .examination import Examination, OwnPod, check_server, check_version
from .finding import Check, Finding, Result, error, has_errors, ok, run_checks, warning
from .keys import check_keys
from .leases import check_lease, check_overlap
from .reviews import as_self, check_accounts, checks_of_rights, denied, described

_DEPTH: Final = 5
"""The most owners that are followed: a pod has three at most (cron job, job, pod)."""


async def check_own_pod(examined: Examination) -> list[Finding]:
    """Follow the owners of this pod, and compare them with the controllers here.

    If all replicas are lost at once, only another manager could make them again.
    """
    pod = examined.pod
    if pod is None:
        return [ok("this process runs in no pod")]
    owners = await _owners(examined.client, pod)
    if owners is None:
        text = f"no pod {pod.namespace}/{pod.name} can be read"
        return [warning(text, "set POD_NAMESPACE and POD_NAME to those of this pod")]
    made_by = {
        descriptor.name: kind
        for descriptor in examined.starting
        for kind in owners
        if _makes(kind, descriptor.name)
    }
    if not made_by:
        by = " of ".join(owners) or "no controller"
        return [ok(f"{pod.namespace}/{pod.name} is made by {by}")]
    names = ", ".join(made_by)
    chain = " and ".join(owners)
    return [
        error(
            f"{pod.namespace}/{pod.name} belongs to a {chain}, and this manager would "
            f"run {names}: if no replica is left, none is made",
            "run it as a static pod, or leave these controllers to another manager",
        )
    ]


async def _owners(client: Client, pod: OwnPod) -> list[str] | None:
    """Return the kinds of the controlling owners, the nearest one first.

    `None` if the pod cannot be found. Objects are listed: the daemon's identity may be
    allowed to list and watch only.
    """
    kinds: list[str] = []
    version, plural, name = "v1", "pods", pod.name
    for _ in range(_DEPTH):
        metadata = await _metadata(client, version, pod.namespace, plural, name)
        if metadata is None:
            return kinds or None
        references = metadata.get("ownerReferences") or ()
        owner = next((each for each in references if each.get("controller")), None)
        if owner is None or owner["kind"] == "Node":  # of a static pod
            return kinds
        kinds.append(owner["kind"])
        version, name = owner["apiVersion"], owner["name"]
        plural = f"{owner['kind'].lower()}s"
    return kinds


async def _metadata(
    client: Client, version: str, namespace: str, plural: str, name: str
) -> dict[str, Any] | None:
    root = "apis" if "/" in version else "api"
    path = f"/{root}/{version}/namespaces/{segment(namespace, 'namespace')}/{plural}"
    query = (("fieldSelector", f"metadata.name={name}"),)
    try:
        found: dict[str, Any] = await client.read(path, dict[str, Any], query)
    except (NotFound, Forbidden):
        return None
    items = found.get("items") or ()
    return next((each["metadata"] for each in items), None)


def _makes(kind: str, controller: str) -> bool:
    """Tell whether a controller is the one of a kind, by upstream's names."""
    return controller == f"{kind.lower()}-controller"


_READER: Final = (
    "kubectl create rolebinding -n kube-system NAME "
    "--role=extension-apiserver-authentication-reader --user=USER"
)
_DELEGATOR: Final = (
    "kubectl create clusterrolebinding NAME --clusterrole=system:auth-delegator "
    "--user=USER"
)


async def check_endpoints(examined: Examination) -> list[Finding]:
    """Check the permissions that ``/metrics`` and the other endpoints need."""
    config = examined.config
    if config.serving.port == 0:
        return [ok("nothing is served")]
    found = [
        *await _check(
            examined.authentication,
            "--authentication-kubeconfig",
            [AUTHENTICATE],
        ),
        *await _check_lookup(examined.authentication, config.authentication),
        *await _check(
            examined.authorization,
            "--authorization-kubeconfig",
            [AUTHORIZE],
        ),
    ]
    return found or [ok("callers are authenticated and authorized by the API server")]


async def _check(
    client: Client | None, flag: str, permissions: list[Permission]
) -> list[Finding]:
    if client is None:
        text = f"without {flag} only members of system:masters read /metrics"
        return [warning(text, f"give {flag}")]
    lacking = await denied(as_self(client), permissions)
    if not lacking:
        return []
    text = f"the identity of {flag} may not {described(lacking)}"
    return [error(text, _DELEGATOR)]


async def _check_lookup(
    client: Client | None, config: AuthenticationConfig
) -> list[Finding]:
    """Check the read without which the daemon ends, unless flags make it needless."""
    is_complete = config.client_ca_file and config.request_header.client_ca_file
    if client is None or config.skip_lookup or is_complete:
        return []
    lacking = await denied(as_self(client), [READ_AUTHORITIES])
    if not lacking:
        return []
    text = f"the identity of --authentication-kubeconfig may not {described(lacking)}"
    make = warning if config.tolerate_lookup_failure else error
    return [make(text, _READER)]


_OWN: Final = "controller_manager.controllers."
"""The start of the package names of kube-controller-manager's own controllers."""


async def check_resources(examined: Examination) -> list[Finding]:
    """Look up all resources that the starting controllers require.

    The daemon watches definitions, looks again every 30 seconds, and runs the others
    meanwhile.
    """
    missing = await unserved_resources(
        examined.client, examined.starting, examined.config.features
    )
    findings = [
        error(f"the resources of {version} cannot be discovered: {problem}")
        for version, problem in missing.problems.items()
    ]
    undiscovered = set(missing.problems)
    for name, lacking in missing.lacking.items():
        absent = [
            each for each in lacking if each.rpartition("/")[0] not in undiscovered
        ]
        if absent:
            listed = ", ".join(absent)
            mend = " and ".join(dict.fromkeys(_mend(examined, each) for each in absent))
            findings.append(
                warning(
                    f"{name} would wait: the API server does not serve {listed}",
                    f"{mend}, or give --controllers=*,-{name}",
                )
            )
    return findings or [ok("the API server serves all that the controllers need")]


def _mend(examined: Examination, resource: str) -> str:
    """Return what makes the API server serve a resource, ``GROUP/VERSION/PLURAL``.

    It has those of kube-controller-manager's own controllers built in. The definition
    of any other is an object.
    """
    version, _, plural = resource.rpartition("/")
    group = version.rpartition("/")[0]
    built_in = {
        required.group
        for descriptor in examined.build.descriptors
        if descriptor.package.startswith(_OWN)
        for required in descriptor.requires_with(examined.config.features)
    }
    if group in built_in:
        return "enable the API there"
    return f"apply the definition {plural}.{group}, with the version {version}"


_LEASE: Final = ("kube-system", "kube-controller-manager")


async def check_controllers(examined: Examination) -> list[Finding]:
    """Check that the config starts all controllers that upstream runs by default.

    With another lease than upstream's, the other controllers run elsewhere. There a
    manager without any controller stands by. With upstream's lease it would keep
    kube-controller-manager from working.
    """
    election = examined.config.generic.leader_election
    is_replacing = (election.resource_namespace, election.resource_name) == _LEASE
    if not examined.starting:
        make = error if election.leader_elect and is_replacing else warning
        return [make("no controller starts", "name one in --controllers")]
    if not election.leader_elect or not is_replacing:
        return [ok(f"{len(examined.starting)} controllers start")]
    absent = selection.left_out_controllers(
        examined.build, examined.config, examined.root_ca
    )
    if not absent:
        return [ok(f"{len(examined.starting)} controllers start, none is left out")]
    return list(_warnings(absent))


def _warnings(absent: Sequence[selection.LeftOut]) -> Iterator[Finding]:
    left_out = [each.name for each in absent if each.why == selection.NOT_SELECTED]
    if left_out:
        text = f"--controllers leaves out {', '.join(left_out)}"
        yield warning(text, "name them there, unless another manager runs them")
    for each in absent:
        if each.why != selection.NOT_SELECTED:
            yield warning(f"{each.name} would not run", each.why)


async def check_flags(config: Config) -> list[Finding]:
    """Repeat the warnings of the config, which the daemon logs at its start."""
    if not config.warnings:
        return [ok("all flags have an effect")]
    return [warning(each) for each in config.warnings]


_MEND: Final = (
    "mend the server behind its APIService, or delete the APIService if nothing uses "
    "that API"
)


async def check_discovery(examined: Examination) -> list[Finding]:
    """Discover all resources, as garbage collector, quotas and namespaces do.

    While a group version fails, no namespace ends, and its objects have no owners or
    dependents. All other kinds are handled.
    """
    discovery = await discover(examined.client)
    return [
        warning(f"the resources of {name} cannot be discovered: {why}", _MEND)
        for name, why in sorted(discovery.failures.items())
    ] or [ok("the resources of all API groups can be discovered")]


_First = Callable[[Examination], Awaitable[list[Finding]]]

_BEFORE_RIGHTS: Final[dict[str, _First]] = {
    "version": check_version,
    "controllers": check_controllers,
    "resources": check_resources,
    "discovery": check_discovery,
}
_AFTER_RIGHTS: Final[dict[str, _First]] = {
    "endpoints": check_endpoints,
    "lease": check_lease,
    "other managers": check_overlap,
    "own pod": check_own_pod,
}


def local_checks(config: Config, clock: Clock) -> Iterator[Check]:
    """Yield the checks that need no API server."""
    yield Check("flags", partial(check_flags, config))
    yield Check("keys", partial(check_keys, config, clock.now()))


async def examine(examined: Examination, timeout: float) -> list[Result]:  # noqa: ASYNC109 - it bounds each check
    """Return the findings of all checks, each within `timeout` seconds.

    If the API server does not answer this identity, the checks that need it are left
    out: each would say the same.
    """
    local = local_checks(examined.config, examined.clock)
    server = Check("server", partial(check_server, examined))
    first = await run_checks([*local, server], timeout)
    if has_errors(first[-1:]):
        return first
    return [*first, *await run_checks(_checks_of_cluster(examined), timeout)]


def _checks_of_cluster(examined: Examination) -> Iterator[Check]:
    for name, check in _BEFORE_RIGHTS.items():
        yield Check(name, partial(check, examined))
    yield from checks_of_rights(examined)
    if examined.uses_accounts:
        yield Check("accounts", partial(check_accounts, examined))
    for name, check in _AFTER_RIGHTS.items():
        yield Check(name, partial(check, examined))
