"""The kinds of webhook configurations, and the rules that policies have in common.

Upstream: pkg/apis/admissionregistration/validation, k8s.io/apiserver/pkg/util/webhook.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import columns
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

from .compilation import declared, problem_of

# Rules and match conditions, of webhooks and policies

_WORDS: Final = {
    "operations": "operations",
    "apiGroups": "API groups",
    "apiVersions": "API versions",
}


def _alone(values: list[str], field: str) -> Iterator[Cause]:
    """Check that ``*`` is the only value if it is one."""
    if len(values) > 1 and "*" in values:
        word = _WORDS[field.rpartition(".")[2]]
        detail = f"if '*' is present, must not specify other {word}"
        yield invalid(field, shown(values), detail)


def _not_empty(value: str, field: str) -> list[Cause]:
    return [] if value else [required(field)]


def _resources(resources: list[str], field: str) -> list[Cause]:
    causes = list[Cause]()
    wild: dict[str, set[str]] = {"of": set(), "in": set()}
    for number, each in enumerate(resources):
        where = f"{field}[{number}]"
        plural, slash, subresource = each.partition("/")
        if not each:
            causes.append(required(where))
        if not slash:
            continue
        if plural in wild["of"]:
            detail = f"if '{plural}/*' is present, must not specify {each}"
            causes.append(invalid(where, shown(each), detail))
        if subresource in wild["in"]:
            detail = f"if '*/{subresource}' is present, must not specify {each}"
            causes.append(invalid(where, shown(each), detail))
        if subresource == "*":
            wild["of"].add(plural)
        if plural == "*":
            wild["in"].add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        causes.append(invalid(field, shown(resources), detail))
    plain = [each for each in resources if each and "/" not in each]
    if "*" in plain and plain[-1] != "*":
        detail = (
            "if '*' is present, must not specify other resources without subresources"
        )
        causes.append(invalid(field, shown(resources), detail))
    return causes


RULE: Final = table(
    """
    operations: required
    operations: alone
    operations[]: enum * CONNECT CREATE DELETE UPDATE
    apiGroups: required
    apiGroups: alone
    apiVersions: required
    apiVersions: alone
    apiVersions[]: not_empty
    resources: required
    resources: resources
    scope: enum * Cluster Namespaced default null
    """,
    _alone,
    _not_empty,
    _resources,
)


def _condition(condition: JSON, path: str, outer: JSON) -> Iterator[Cause]:
    """Compile a condition; that of a policy may use the parameters of the policy."""
    expression = condition.get("expression", "").strip()
    known = declared(params="paramKind" in outer)
    if not expression:
        yield required(f"{path}expression")
    elif problem := problem_of(expression, known, "bool"):
        yield invalid(f"{path}expression", shown(expression), problem)


MATCH_CONDITIONS: Final = table(
    """
    matchConditions: most 64
    matchConditions[]:
      hook condition
      name: required
      name: qualified
      name: unique
    """,
    _condition,
)

# Webhooks

_FORM: Final = "; desired format: https://host[/path]"
_NAME_SEGMENTS: Final = 3
REVIEWS: Final = ("v1", "v1beta1")
"""The versions of reviews that the server sends."""


def _full_name(name: str, field: str) -> Iterator[Cause]:
    if problems := subdomain_problems(name):
        yield invalid(field, shown(name), ",".join(problems))
    if len(name.split(".")) < _NAME_SEGMENTS:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(field, shown(name), detail)


def validate_review_versions(versions: list[str], field: str) -> Iterator[Cause]:
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


def _path(path: str, field: str) -> list[Cause]:
    if path == "/":
        return []
    if path == "//":
        return [invalid(field, shown(path), "segment[0] may not be empty")]
    causes = []
    if not path.startswith("/"):
        causes.append(invalid(field, shown(path), "must start with a '/'"))
    for number, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            detail = f"segment[{number}] may not be empty"
            causes.append(invalid(field, shown(path), detail))
            continue
        causes += [
            invalid(field, shown(path), f"segment[{number}]: {each}")
            for each in subdomain_problems(step)
        ]
    return causes


CLIENT: Final = table(
    """
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
    """,
    _has_one_target,
    _url,
    _path,
)
_MATCHES: Final = table(
    """
    name: required
    name: full_name
    rules[]:
      include RULE
    failurePolicy: enum Fail Ignore default null
    matchPolicy: enum Equivalent Exact default null
    sideEffects: required pointer "must specify one of None, NoneOnDryRun"
    sideEffects: enum None NoneOnDryRun
    timeoutSeconds: range 1 30 "the timeout value must be between 1 and 30 seconds"
    namespaceSelector, objectSelector: selector
    """,
    _full_name,
    RULE=RULE,
)
_CALLS: Final = table(
    """
    clientConfig always:
      include CLIENT
    include MATCH_CONDITIONS
    admissionReviewVersions: required "must specify one of v1, v1beta1"
    admissionReviewVersions: review_versions
    name: unique
    """,
    validate_review_versions,
    CLIENT=CLIENT,
    MATCH_CONDITIONS=MATCH_CONDITIONS,
)

_DEFAULTS: Final = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
    "rules[]": {"scope": "*"},
    "clientConfig": {"service": {"port": 443}},
}
_COLUMNS: Final = columns("Name; Webhooks integer: count .webhooks; Age")

VALIDATING_WEBHOOKS: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations",
    Strategy(
        counts_generations=True,
        defaults={"webhooks[]": _DEFAULTS},
        rules=table(
            """
            webhooks[]:
              include MATCHES CALLS
            """,
            MATCHES=_MATCHES,
            CALLS=_CALLS,
        ),
        printer=_COLUMNS,
    ),
)
MUTATING_WEBHOOKS: Final = kind_of(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    Strategy(
        counts_generations=True,
        defaults={"webhooks[]": {**_DEFAULTS, "reinvocationPolicy": "Never"}},
        rules=table(
            """
            webhooks[]:
              include MATCHES
              reinvocationPolicy: enum IfNeeded Never default null
              include CALLS
            """,
            MATCHES=_MATCHES,
            CALLS=_CALLS,
        ),
        printer=_COLUMNS,
    ),
)
