"""A request: its query, its target, its deadline, and its metrics at ``/metrics``."""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Query, Request, Response
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.storage import Storage
from controller_manager.observability.exposition import expose
from controller_manager.options.durations import parse_duration

from .admission import Submission
from .kind import Catalogue, Kind, Subresource, exact_name
from .security import Attributes, User
from .strategy import Deletion

# Continue tokens: the position at which the next page of a list begins.

LATEST: Final = -1
"""The version in a token of a list that goes on with the present state."""


def encode_continue(version: int, start: str) -> str:
    """Return the token of a page that begins after `start`, at a version."""
    body = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(msgspec.json.encode(body)).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """Return version and start of a token; raises Refusal 400."""
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data") from None
    try:
        body = msgspec.json.decode(raw)
        return int(body["rv"]), str(body["start"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        first = raw[:1]
        printable = first.isascii() and first.decode().isprintable()
        character = first.decode() if printable else f"\\x{first.hex()}"
        why = f"invalid character '{character}' looking for beginning of value"
        raise _bad_token(why) from None


def _bad_token(why: str) -> statuses.Refusal:
    return statuses.bad_request(
        f"invalid continue token: continue key is not valid: {why}"
    )


# Query parameters: booleans, numbers, dryRun, and checks of list options.

_MATCH: Final = "resourceVersionMatch"
_NOT_OLDER: Final = "NotOlderThan"
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_OPTIONS_KINDS: Final = {
    "POST": "CreateOptions",
    "PUT": "UpdateOptions",
    "PATCH": "PatchOptions",
}
"""The kind of the parameters of a write, by its method."""

_INT64: Final = 2**63


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Tell whether a parameter is true.

    It is false if it is absent, ``0`` or ``false``, and true with all other values and
    without a value (runtime/conversion.go).
    """
    value = query.get(name)
    return value is not None and value != "0" and value.lower() != "false"


def whole_number(query: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter as a number of 64 bits; raises Refusal 400."""
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise statuses.bad_request(
            f"strconv.ParseInt: parsing {statuses.shown(text)}: invalid syntax"
        )
    number = int(text) if len(text) < 30 else _INT64
    if not -_INT64 <= number < _INT64:
        raise statuses.bad_request(
            f"strconv.ParseInt: parsing {statuses.shown(text)}: value out of range"
        )
    return number


def wants_initial_events(query: Mapping[str, str]) -> bool:
    """Tell whether a watch begins with the present objects.

    It does so without a resourceVersion, or with 0, unless ``sendInitialEvents`` says
    otherwise (meta/internalversion/defaults.go).
    """
    if "sendInitialEvents" in query:
        return is_true(query, "sendInitialEvents")
    return query.get("resourceVersion", "") in ("", "0")


def check_write_options(method: str, query: Mapping[str, str]) -> None:
    """Check ``fieldValidation`` and ``dryRun`` of a write; raises Refusal 422.

    Upstream: meta/v1/validation/validation.go.
    """
    causes = []
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        value = f"[]string{{{statuses.shown(dry_run)}}}"
        causes.append(statuses.not_supported("dryRun", value, ["All"]))
    validation = query.get("fieldValidation", "")
    if method != "DELETE" and validation not in _VALIDATIONS:
        cause = statuses.not_supported(
            "fieldValidation", statuses.shown(validation), _VALIDATIONS
        )
        causes.append(cause)
    if causes:
        kind = _OPTIONS_KINDS.get(method, "DeleteOptions")
        raise statuses.invalid_object("meta.k8s.io", kind, "", causes)


def check_list_options(query: Mapping[str, str]) -> None:
    """Check the parameters of a list or watch against each other; raises Refusal 422.

    Upstream: meta/internalversion/validation/validation.go.
    """
    watches = is_true(query, "watch")
    causes = _watch_causes(query) if watches else _list_causes(query)
    if causes:
        raise statuses.invalid_object("meta.k8s.io", "ListOptions", "", causes)


def _watch_causes(query: Mapping[str, str]) -> list[statuses.Cause]:
    match, causes = query.get(_MATCH, ""), []
    sends_initial = "sendInitialEvents" in query
    if sends_initial and match != _NOT_OLDER:
        detail = f"sendInitialEvents requires setting {_MATCH} to {_NOT_OLDER}"
        causes.append(statuses.forbidden_field(_MATCH, detail))
    if match:
        if not sends_initial:
            detail = f"{_MATCH} is forbidden for watch unless sendInitialEvents is"
            causes.append(statuses.forbidden_field(_MATCH, f"{detail} provided"))
        if match != _NOT_OLDER:
            causes.append(
                statuses.not_supported(_MATCH, statuses.shown(match), [_NOT_OLDER])
            )
        if query.get("continue"):
            causes.append(_match_with_continue())
    return causes


def _list_causes(query: Mapping[str, str]) -> list[statuses.Cause]:
    match, causes = query.get(_MATCH, ""), []
    version = query.get("resourceVersion", "")
    if match:
        if not version:
            detail = f"{_MATCH} is forbidden unless resourceVersion is provided"
            causes.append(statuses.forbidden_field(_MATCH, detail))
        if query.get("continue"):
            causes.append(_match_with_continue())
        if match not in ("Exact", _NOT_OLDER):
            known = ["Exact", _NOT_OLDER, ""]
            causes.append(statuses.not_supported(_MATCH, statuses.shown(match), known))
        if match == "Exact" and version == "0":
            detail = f'{_MATCH} "exact" is forbidden for resourceVersion "0"'
            causes.append(statuses.forbidden_field(_MATCH, detail))
    if "sendInitialEvents" in query:
        detail = "sendInitialEvents is forbidden for list"
        causes.append(statuses.forbidden_field("sendInitialEvents", detail))
    return causes


def _match_with_continue() -> statuses.Cause:
    detail = f"{_MATCH} is forbidden when continue is provided"
    return statuses.forbidden_field(_MATCH, detail)


def asks_for_dry_run(value: str | list[str] | None) -> bool:
    """Tell whether dryRun is All; raises Refusal for any other value."""
    if value in (None, "", []):
        return False
    if value in ("All", ["All"]):
        return True
    cause = statuses.not_supported("dryRun", statuses.shown(value), ("All",))
    raise statuses.invalid_object("meta.k8s.io", "Options", "", [cause])


def parse_deletion(body: JSON, query: Mapping[str, str]) -> Deletion:
    """Return the options of a DELETE in a decoded body and a query; raises Refusal."""
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    if isinstance(grace, str) and "gracePeriodSeconds" not in body:
        grace = whole_number(query, "gracePeriodSeconds", 0)
    if grace is not None and not re.fullmatch(r"-?\d{1,9}", str(grace)):
        message = f"gracePeriodSeconds: Invalid value: {grace!r}"
        raise statuses.bad_request(message)
    preconditions = body.get("preconditions") or {}
    return Deletion(
        grace_period=int(grace) if grace is not None else None,
        policy=_policy(body, query),
        dry_run=asks_for_dry_run(body.get("dryRun")),
        uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""),
    )


def _policy(body: JSON, query: Mapping[str, str]) -> str:
    policy = str(body.get("propagationPolicy", query.get("propagationPolicy", "")))
    if body.get("orphanDependents") is not None or "orphanDependents" in query:
        if policy:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            cause = statuses.invalid(
                "propagationPolicy", statuses.shown(policy), detail
            )
            raise statuses.invalid_object("meta.k8s.io", "DeleteOptions", "", [cause])
        orphans = body.get("orphanDependents", is_true(query, "orphanDependents"))
        return "Orphan" if orphans else "Background"
    if policy not in ("", "Foreground", "Background", "Orphan"):
        supported = ("Foreground", "Background", "Orphan", "nil")
        cause = statuses.not_supported("propagationPolicy", f'"{policy}"', supported)
        raise statuses.invalid_object("meta.k8s.io", "DeleteOptions", "", [cause])
    return policy


# Handlers of paths that are no resources.


class PathHandler(Protocol):
    """Answers the requests of one path that is no resource."""

    def body_limit(self, user: User) -> int:
        """Return the most bytes that a user may send, 0 for the default."""

    async def answer(
        self, request: Request, user: User
    ) -> Response | StreamingResponse:
        """Answer a request that authorization allows; raises Refusal."""


class Document:
    """Answers each GET with a new document."""

    def __init__(self, media_type: str, make: Callable[[], bytes]) -> None:
        self._headers = {"content-type": media_type}
        self._make = make

    def body_limit(self, user: User) -> int:
        """Return 0: requests have bodies of the usual size, if any."""
        del user
        return 0

    async def answer(self, request: Request, user: User) -> Response:
        """Answer a request; raises Refusal 405 for another method than GET."""
        del user
        if request.method != "GET":
            raise statuses.method_not_allowed()
        return Response(200, self._headers, self._make())


# A request: the target of its path, its attributes, and its deadline.

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES: Final = frozenset(("status", "finalize"))
_SPECIAL_VERBS: Final = frozenset(("proxy", "watch"))
_CORE: Final = 3
"""The least number of segments in the path of a resource of the core group."""


@lru_cache(maxsize=256)
def attributes_of_request(method: str, path: str, query: Query) -> Attributes:
    """Return the attributes of a request: a resource, or a path that is none.

    Several parts of the server ask for them during one request.
    """
    segments = [each for each in path.split("/") if each]
    prefix = segments[0] if segments else ""
    least = _CORE if prefix == "api" else _CORE + 1
    if prefix not in ("api", "apis") or len(segments) < least:
        return Attributes(method.lower(), path=path)
    group = "" if prefix == "api" else segments[1]
    parts = segments[least - 1 :]
    verb = _VERBS.get(method, "")
    if parts[0] in _SPECIAL_VERBS:
        if len(parts) == 1:
            return Attributes(method.lower(), path=path)
        verb, parts = parts[0], parts[1:]
    return _about(verb, group, parts, dict(query))


def _about(
    verb: str, group: str, parts: list[str], query: Mapping[str, str]
) -> Attributes:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, name, subresource = [*parts, "", ""][:3]
    if verb == "proxy":
        subresource = ""
    if not name and verb == "get":
        verb = "watch" if is_true(query, "watch") else "list"
        name = exact_name(query.get("fieldSelector", ""))
    if not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(
        verb,
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


_LONG_SUBRESOURCES: Final = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Requests that last as long as their clients want have no deadline."""

_PART: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
_UNITS: Final = frozenset(("ns", "us", "µs", "\u03bcs", "ms", "s", "m", "h"))


def check_timeout(request: Request) -> None:
    """Raise Refusal 400 for a ``timeout`` that is no duration of Go."""
    text = next((value for name, value in request.query if name == "timeout"), "")
    if not text:
        return
    try:
        parse_duration(text)
    except ValueError:
        found = attributes_of_request(request.method, request.path, request.query)
        if found.verb in _SPECIAL_VERBS or found.subresource in _LONG_SUBRESOURCES:
            return
        prefix = "invalid timeout specified in the request URL"
        raise statuses.bad_request(f"{prefix} - time: {_error(text)}") from None


def _error(text: str) -> str:
    """Return the words of Go's time package about a wrong duration."""
    rest = text[1:] if text[0] in "+-" else text
    while match := _PART.match(rest):
        unit = match[1]
        if not unit:
            return f"missing unit in duration {statuses.shown(text)}"
        if unit not in _UNITS:
            shown = statuses.shown(unit)
            return f"unknown unit {shown} in duration {statuses.shown(text)}"
        rest = rest[match.end() :]
    return f"invalid duration {statuses.shown(text)}"


_NAMESPACES: Final = "namespaces"
"""The segment of a path before the name of a namespace."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target that a path and its query name.

    A write has a `submission`: the request in the form for admission.
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    user: User
    submission: Submission | None = None

    @property
    def dry_run(self) -> bool:
        """True for a dry run; raises Refusal for an unknown value."""
        return asks_for_dry_run(self.query.get("dryRun"))

    @property
    def field_validation(self) -> str:
        """The treatment of unknown fields: Ignore, Warn or Strict."""
        return self.query.get("fieldValidation", "Warn")


def find_target(
    catalogue: Catalogue,
    group_version: tuple[str, str],
    parts: list[str],
    query: dict[str, str],
    user: User,
) -> Target:
    """Return the target that the `parts` of a path below a group version name.

    Raises Refusal 404.
    """
    if parts[0] == "watch" and len(parts) > 1:
        return _watched(find_target(catalogue, group_version, parts[1:], query, user))
    namespace = ""
    if _is_in_namespace(catalogue, group_version, parts):
        namespace, parts = parts[1], parts[2:]
    plural, name, subresource = [*parts, "", "", ""][:3]
    kind = catalogue.find(*group_version, plural)
    if kind is None:
        raise statuses.no_such_resource()
    part = kind.subresource(subresource) if subresource else None
    if len(parts) > 3 and not (part and part.takes_path):
        raise statuses.no_such_resource()
    if kind.namespaced and not namespace and name:
        raise statuses.no_such_resource()
    return Target(kind, namespace, name, subresource, query, user)


def not_served(target: Target, verb: str) -> statuses.Refusal:
    """Return the refusal of a request to a subresource that this server cannot fulfil.

    It is 405 if a real API server refuses the `verb`, too.
    """
    part = target.kind.subresource(target.subresource)
    if part is None or verb not in part.verbs:
        return statuses.method_not_allowed()
    what = f"{target.kind.plural}/{part.name}"
    message = part.refusal.format(name=f'"{target.name}"')
    return statuses.not_implemented(
        message or f"{what} is not served by the development cluster"
    )


def _watched(target: Target) -> Target:
    """Return the target that a path with the prefix ``watch`` names.

    Upstream keeps the prefix for old clients: it watches a resource or one object.
    """
    query = {**target.query, "watch": "true"}
    if target.name:
        selectors = (query.get("fieldSelector"), f"metadata.name={target.name}")
        query["fieldSelector"] = ",".join(filter(None, selectors))
    return replace(target, name="", query=query)


def _is_in_namespace(
    catalogue: Catalogue, group_version: tuple[str, str], parts: list[str]
) -> bool:
    """Tell whether a path names a resource in a namespace, not the namespace itself.

    ``namespaces/x/widgets`` does, ``namespaces/x/status`` does not (requestinfo.go).
    """
    if parts[0] != _NAMESPACES or len(parts) < 3:
        return False
    if len(parts) > 3:
        return True
    scope = catalogue.find(*group_version, _NAMESPACES)
    return scope is None or scope.subresource(parts[2]) is None


# Requests that connect to a pod, a service or a node: exec, attach, proxy.

_FLAGS: Final = ("stderr", "stdin", "stdout", "tty")
_LISTS: Final = ("command", "ports")
_TEXTS: Final = ("container", "path")
_FALSE: Final = ("", "0", "false", "False")


def connection_of(target: Target) -> Subresource | None:
    """Return the subresource to which a request connects, `None` for all others."""
    found = target.kind.subresource(target.subresource) if target.subresource else None
    if found is None or not found.kind.endswith("Options"):
        return None
    return found


def options_of(subresource: Subresource, query: Iterable[tuple[str, str]]) -> JSON:
    """Return the options of a connection, for example PodExecOptions."""
    options: JSON = {"kind": subresource.kind, "apiVersion": "v1"}
    for name, value in query:
        if name in _FLAGS:
            options[name] = value not in _FALSE
        elif name in _LISTS:
            options.setdefault(name, []).append(value)
        elif name in _TEXTS:
            options[name] = value
    return options


# The metrics of the API server at ``/metrics``: its requests and its objects.

PATH: Final = "/metrics"

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LABELS: Final = (
    "code",
    "component",
    "dry_run",
    "group",
    "resource",
    "scope",
    "subresource",
    "verb",
    "version",
)
_METHODS: Final = {"create": "POST", "update": "PUT"}


class RequestMetrics(Collector):
    """Counts the requests that come over the network, and makes the metrics."""

    def __init__(self, catalogue: Catalogue, storage: Storage) -> None:
        self._catalogue = catalogue
        self._storage = storage
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, request: Request, code: int) -> None:
        """Count a request by its attributes, and by the status of its answer.

        All paths of unknown kinds share one series, so that no client can make the
        server's memory grow.
        """
        query = dict(request.query)
        found = attributes_of_request(request.method, request.path, request.query)
        segments = request.path.strip("/").split("/")
        version = "".join(segments[1:2] if segments[0] == "api" else segments[2:3])
        kind = self._catalogue.find(found.group, version, found.resource)
        labels = ("", "", "", "", "", found.verb.upper(), "")
        if kind is not None:
            known = kind.subresource(found.subresource)
            labels = (
                "All" if query.get("dryRun") else "",
                kind.group,
                kind.plural,
                _scope(found.name, found.namespace),
                found.subresource if known else "",
                _METHODS.get(found.verb, found.verb.upper()),
                kind.version,
            )
        elif request.method not in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            labels = (*labels[:5], "other", "")
        self._requests[str(code), "apiserver", *labels] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        requests = CounterMetricFamily(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, "
            "group, version, resource, scope, component, and HTTP response code.",
            labels=_LABELS,
        )
        for labels, number in self._requests.items():
            requests.add_metric(labels, number)
        yield requests
        objects = GaugeMetricFamily(
            "apiserver_storage_objects",
            "Number of stored objects at the time of last check split by kind.",
            labels=("resource",),
        )
        stored = {kind.resource for kind in self._catalogue.all() if kind.is_stored}
        for resource in sorted(stored):
            objects.add_metric((resource,), len(self._storage.collection(resource)))
        yield objects

    def text(self) -> bytes:
        """Return the metrics in the text format."""
        return expose(self._registry)


def _scope(name: str, namespace: str) -> str:
    if name:
        return "resource"
    return "namespace" if namespace else "cluster"
