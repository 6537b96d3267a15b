"""The kinds of webhook configurations, and what policies have in common with them.

Upstream: pkg/apis/admissionregistration/validation, k8s.io/apiserver/pkg/util/webhook,
k8s.io/apiserver/pkg/admission/plugin/cel.
"""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from controller_manager.api.json_objects import JSON
from controller_manager.cel import syntax
from controller_manager.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    ListOf,
    MapOf,
    Scalar,
    Type,
    object_of,
)
from controller_manager.devcluster.scheme.names import (
    service_name_problems,
    subdomain_problems,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.validation.text import table

from .apiextensions.schemas.rules import checked
from .kinds import kind_of

# Expressions, which the API server compiles when they are stored

_STRINGS: Final = ListOf(STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, STRING)


_KIND: Final = object_of(_texts("group", "version", "kind"))
_RESOURCE: Final = object_of(_texts("group", "version", "resource"))
_USER: Final = object_of(
    {**_texts("username", "uid"), "groups": _STRINGS, "extra": MapOf(_STRINGS)}
)
_REQUEST: Final = object_of(
    {
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        "kind": _KIND,
        "resource": _RESOURCE,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    }
)
_METADATA: Final = object_of(
    {
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), DYN),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
        **dict.fromkeys(("labels", "annotations"), MapOf(STRING)),
        "finalizers": _STRINGS,
    }
)
_NAMESPACE: Final = object_of(
    {
        "metadata": _METADATA,
        "spec": object_of({"finalizers": _STRINGS}),
        "status": object_of({"conditions": DYN, "phase": STRING}),
    }
)
_ALWAYS: Final[Mapping[str, Type]] = {
    "object": DYN,
    "oldObject": DYN,
    "request": _REQUEST,
    "namespaceObject": _NAMESPACE,
}
_UNTYPED: Final = frozenset(("object", "oldObject", "params"))


def declared(
    *,
    params: bool,
    authorizer: bool = True,
    variables: Mapping[str, Type] | None = None,
    patches: bool = False,
) -> Mapping[str, Type]:
    """Return the variables that an expression may use, and their types.

    `variables` are those of a policy, `None` outside policies. With `patches`, the
    expression may create objects and JSON patches.
    """
    names = dict(_ALWAYS)
    if params:
        names["params"] = DYN
    if authorizer:
        names["authorizer"] = DYN
    if variables is not None:
        names["variables"] = object_of(dict(variables))
    if patches:
        names |= dict.fromkeys(("Object", "JSONPatch"), DYN)
    return names


def problem_of(expression: str, names: Mapping[str, Type], *wanted: str) -> str:
    """Return why an expression cannot be compiled, "" if it can.

    `wanted` are the types that its value may have; an empty set allows all types.
    """
    problem, root, type_ = checked(expression, names)
    if problem or root is None:
        return problem
    found = _shown_type(root, type_)
    if not wanted or not found or found in wanted:
        return ""
    if len(wanted) == 1:
        return f"must evaluate to {wanted[0]} but got {found}"
    return f"must evaluate to one of [{' '.join(wanted)}] but got {found}"


def _shown_type(node: syntax.Node, found: Type) -> str:
    """Return the type of a node as messages show it, "" if it is not known."""
    if isinstance(found, Scalar):
        return found.name
    if isinstance(node, syntax.Literal) and node.type == "null_type":
        return "null_type"
    if isinstance(node, syntax.Collection):
        return _shown_collection(node)
    if isinstance(
        node, syntax.Selection | syntax.Indexing | syntax.Identifier
    ) and _is_untyped(node):
        return "dyn"
    return ""


def _shown_collection(node: syntax.Collection) -> str:
    """Return the type of a message, or of a list whose items are messages."""
    if node.kind == "message":
        return node.type
    if node.kind == "map":
        return "map"
    types = {
        each.type
        if isinstance(each, syntax.Collection) and each.kind == "message"
        else ""
        for each in node.parts
    }
    return f"list({types.pop()})" if len(types) == 1 and "" not in types else ""


def _is_untyped(node: syntax.Node) -> bool:
    """Tell whether a node is a part of an object, of which the compiler knows nothing.

    Optional selections are left out: their type is an optional one.
    """
    while isinstance(node, syntax.Selection | syntax.Indexing):
        if node.is_optional:
            return False
        node = node.operand
    return isinstance(node, syntax.Identifier) and node.name in _UNTYPED


# Rules and match conditions, of webhooks and policies

_WORDS: Final = {
    "operations": "operations",
    "apiGroups": "API groups",
    "apiVersions": "API versions",
}


def _alone(values: list[str], field: str) -> Iterator[str]:
    """Check that ``*`` is the only value if it is one."""
    if len(values) > 1 and "*" in values:
        word = _WORDS[field.rpartition(".")[2]]
        yield f"if '*' is present, must not specify other {word}"


def _not_empty(value: str, field: str) -> list[Cause]:
    return [] if value else [required(field)]


def _resources(resources: list[str], field: str) -> Iterator[Cause | str]:
    wild: dict[str, set[str]] = {"of": set(), "in": set()}
    for number, each in enumerate(resources):
        where = f"{field}[{number}]"
        plural, slash, subresource = each.partition("/")
        if not each:
            yield required(where)
        if not slash:
            continue
        if plural in wild["of"]:
            detail = f"if '{plural}/*' is present, must not specify {each}"
            yield invalid(where, shown(each), detail)
        if subresource in wild["in"]:
            detail = f"if '*/{subresource}' is present, must not specify {each}"
            yield invalid(where, shown(each), detail)
        if subresource == "*":
            wild["of"].add(plural)
        if plural == "*":
            wild["in"].add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield "if '*/*' is present, must not specify other resources"
    plain = [each for each in resources if each and "/" not in each]
    if "*" in plain and plain[-1] != "*":
        yield "if '*' is present, must not specify other resources without subresources"


RULE: Final = table("""
    operations: required alone
    operations[]: enum * CONNECT CREATE DELETE UPDATE
    apiGroups: required alone
    apiVersions: required alone
    apiVersions[]: not_empty
    resources: required resources
    scope: enum * Cluster Namespaced default null
    """)


def _condition(condition: JSON, path: str, outer: JSON) -> Iterator[Cause]:
    """Compile a condition; that of a policy may use the parameters of the policy."""
    expression = condition.get("expression", "").strip()
    known = declared(params="paramKind" in outer)
    if not expression:
        yield required(f"{path}expression")
    elif problem := problem_of(expression, known, "bool"):
        yield invalid(f"{path}expression", shown(expression), problem)


MATCH_CONDITIONS: Final = table("""
    matchConditions: most 64
    matchConditions[]:
      hook condition
      name: required qualified
      name: unique
    """)

# Webhooks

_FORM: Final = "; desired format: https://host[/path]"
_NAME_SEGMENTS: Final = 3
REVIEWS: Final = ("v1", "v1beta1")
"""The versions of reviews that the server sends."""


def _full_name(name: str, _: str) -> Iterator[str]:
    if problems := subdomain_problems(name):
        yield ",".join(problems)
    if len(name.split(".")) < _NAME_SEGMENTS:
        yield "should be a domain with at least three segments separated by dots"


def review_versions(versions: list[str], field: str) -> Iterator[Cause]:
    """Check the versions of reviews that a webhook understands."""
    for number, version in enumerate(versions):
        where = f"{field}[{number}]"
        if version in versions[:number]:
            yield invalid(where, shown(version), "duplicate version")
            continue
        for problem in service_name_problems(version):
            yield invalid(where, shown(version), problem)
    if not {*versions} & {*REVIEWS}:
        detail = f"must include at least one of {', '.join(REVIEWS)}"
        yield invalid(field, shown(versions), detail)


def _has_one_target(config: JSON, _: JSON) -> bool:
    return ("url" in config) is not ("service" in config)


def _url(url: str, field: str) -> list[Cause]:
    try:
        found = urlsplit(url)
    except ValueError as error:
        return [required(field, f"url must be a valid URL: {error}{_FORM}")]
    causes = []
    if found.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        causes.append(invalid(field, shown(found.scheme), detail))
    user, _, host = found.netloc.rpartition("@")
    for value, is_wrong, detail in (
        (host, not host, f"host must be specified{_FORM}"),
        (user, user, "user information is not permitted in the URL"),
        (found.fragment, found.fragment, "fragments are not permitted in the URL"),
        (found.query, found.query, "query parameters are not permitted in the URL"),
    ):
        if is_wrong:
            causes.append(invalid(field, shown(value), detail))
    return causes


def _path(path: str, _: str) -> Iterator[str]:
    if path == "/":
        return
    if path == "//":
        yield "segment[0] may not be empty"
        return
    if not path.startswith("/"):
        yield "must start with a '/'"
    for number, step in enumerate(path[1:].removesuffix("/").split("/")):
        if step:
            for each in subdomain_problems(step):
                yield f"segment[{number}]: {each}"
        else:
            yield f"segment[{number}] may not be empty"


CLIENT: Final = table("""
    when has_one_target:
      url: url pointer
      service:
        name: required "service name is required"
        namespace: required "service namespace is required"
        port: range 1 65535 default 443
          "port is not valid: must be between 1 and 65535, inclusive"
        path: path
    else:
      self: required "exactly one of url or service is required"
    """)
_MATCHES: Final = table("""
    name: required full_name
    rules[]:
      include RULE
    failurePolicy: enum Fail Ignore default null
    matchPolicy: enum Equivalent Exact default null
    sideEffects: required pointer "must specify one of None, NoneOnDryRun"
    sideEffects: enum None NoneOnDryRun
    timeoutSeconds: range 1 30 "the timeout value must be between 1 and 30 seconds"
    namespaceSelector, objectSelector: selector
    """)
_CALLS: Final = table("""
    clientConfig always:
      include CLIENT
    include MATCH_CONDITIONS
    admissionReviewVersions: required "must specify one of v1, v1beta1"
    admissionReviewVersions: review_versions
    name: unique
    """)

_DEFAULTS: Final = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
    "rules[]": {"scope": "*"},
    "clientConfig": {"service": {"port": 443}},
}
_COLUMNS: Final = "Name; Webhooks integer: count .webhooks; Age"

VALIDATING_WEBHOOKS: Final = kind_of(
    "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    counts_generations=True,
    defaults={"webhooks[]": _DEFAULTS},
    rules="""
        webhooks[]:
          include MATCHES CALLS
        """,
    printer=_COLUMNS,
)
MUTATING_WEBHOOKS: Final = kind_of(
    "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    counts_generations=True,
    defaults={"webhooks[]": {**_DEFAULTS, "reinvocationPolicy": "Never"}},
    rules="""
        webhooks[]:
          include MATCHES
          reinvocationPolicy: enum IfNeeded Never default null
          include CALLS
        """,
    printer=_COLUMNS,
)
