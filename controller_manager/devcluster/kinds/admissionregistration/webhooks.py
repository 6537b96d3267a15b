"""Defaults and validation of webhooks (pkg/apis/admissionregistration).

Also k8s.io/apiserver/pkg/util/webhook: ValidateWebhookURL, ValidateWebhookService.
"""

from typing import Final
from urllib.parse import urlsplit

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    service_name_problems,
    subdomain_problems,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.label_selectors import validate_selector

from .match_conditions import validate_conditions
from .rules import validate_rule

_CHOICES: Final = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
}
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REINVOCATIONS: Final = ("IfNeeded", "Never")
_VERSIONS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"
_NAME_SEGMENTS: Final = 3
_MOST_SECONDS: Final = 30


def apply_webhook_defaults(obj: JSON, *, mutates: bool) -> None:
    """Fill in the defaults of the webhooks of a configuration."""
    for hook in obj.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        if mutates:
            hook.setdefault("reinvocationPolicy", "Never")
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        if service := (hook.get("clientConfig") or {}).get("service"):
            service.setdefault("port", 443)


def validate_webhooks(obj: JSON, *, mutates: bool) -> list[Cause]:
    """Check the webhooks of a configuration."""
    causes, names = [], list[str]()
    for number, hook in enumerate(obj.get("webhooks") or ()):
        field = f"webhooks[{number}]"
        causes += _validate_webhook(hook, field, mutates=mutates)
        versions = hook.get("admissionReviewVersions") or []
        causes += _validate_versions(versions, f"{field}.admissionReviewVersions")
        if (name := hook.get("name", "")) and name in names:
            causes.append(duplicate(f"{field}.name", shown(name)))
        names.append(name)
    return causes


def _validate_webhook(hook: JSON, field: str, *, mutates: bool) -> list[Cause]:
    causes = _validate_name(hook.get("name", ""), f"{field}.name")
    for number, rule in enumerate(hook.get("rules") or ()):
        causes += validate_rule(rule, f"{field}.rules[{number}]")
    for name, values in _CHOICES.items():
        if hook.get(name) not in values:
            causes.append(
                not_supported(f"{field}.{name}", shown(hook.get(name)), values)
            )
    causes += _validate_side_effects(hook.get("sideEffects"), f"{field}.sideEffects")
    seconds = hook.get("timeoutSeconds", 1)
    if not 1 <= seconds <= _MOST_SECONDS:
        detail = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{field}.timeoutSeconds", shown(seconds), detail))
    for name in ("namespaceSelector", "objectSelector"):
        causes += validate_selector(hook.get(name), f"{field}.{name}")
    if mutates and hook.get("reinvocationPolicy") not in _REINVOCATIONS:
        value = shown(hook.get("reinvocationPolicy"))
        where = f"{field}.reinvocationPolicy"
        causes.append(not_supported(where, value, _REINVOCATIONS))
    causes += validate_client(hook.get("clientConfig") or {}, f"{field}.clientConfig")
    conditions = hook.get("matchConditions") or []
    where = f"{field}.matchConditions"
    return causes + validate_conditions(conditions, where, params=False)


def _validate_name(name: str, field: str) -> list[Cause]:
    if not name:
        return [required(field)]
    causes = []
    if problems := subdomain_problems(name):
        causes.append(invalid(field, shown(name), ",".join(problems)))
    if len(name.split(".")) < _NAME_SEGMENTS:
        detail = "should be a domain with at least three segments separated by dots"
        causes.append(invalid(field, shown(name), detail))
    return causes


def _validate_side_effects(value: str | None, field: str) -> list[Cause]:
    if value is None:
        return [required(field, f"must specify one of {', '.join(_SIDE_EFFECTS)}")]
    if value not in _SIDE_EFFECTS:
        return [not_supported(field, shown(value), _SIDE_EFFECTS)]
    return []


def _validate_versions(versions: list[str], field: str) -> list[Cause]:
    if not versions:
        return [required(field, f"must specify one of {', '.join(_VERSIONS)}")]
    causes = []
    for number, version in enumerate(versions):
        where = f"{field}[{number}]"
        if version in versions[:number]:
            causes.append(invalid(where, shown(version), "duplicate version"))
            continue
        problems = service_name_problems(version)
        causes += [invalid(where, shown(version), each) for each in problems]
    if not set(versions) & {*_VERSIONS}:
        detail = f"must include at least one of {', '.join(_VERSIONS)}"
        causes.append(invalid(field, shown(versions), detail))
    return causes


def validate_client(config: JSON, field: str) -> list[Cause]:
    """Check where a ``clientConfig`` says that a webhook listens."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if url is not None:
        return _validate_url(url, f"{field}.url")
    return _validate_service(service or {}, f"{field}.service")


def _validate_url(url: str, field: str) -> list[Cause]:
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


def _validate_service(service: JSON, field: str) -> list[Cause]:
    causes = [
        required(f"{field}.{name}", f"service {name} is required")
        for name in ("name", "namespace")
        if not service.get(name)
    ]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{field}.port", shown(port), detail))
    return causes + _validate_path(service.get("path") or "/", f"{field}.path")


def _validate_path(path: str, field: str) -> list[Cause]:
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
