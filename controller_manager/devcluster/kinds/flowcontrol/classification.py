"""Classifies requests: the flow schema and the priority level of each.

Upstream: apiserver's util/flowcontrol (apf_controller.go and rule.go) and
server/filters/priority-and-fairness.go. Here no request ever waits, so an answer only
names the two objects.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.security.authentication import User
from controller_manager.devcluster.server.security.authorization import Attributes
from controller_manager.devcluster.server.storage.storage import Storage, Watcher

from .flowschema import KIND as SCHEMAS
from .flowschema import precedence_of
from .prioritylevelconfiguration import KIND as LEVELS

_ACCOUNT: Final = "system:serviceaccount:"
_LONG_RUNNING: Final = frozenset(("attach", "exec", "log", "portforward", "proxy"))
_MOST: Final = 4096
"""The most classes of requests that are remembered."""

_Class = tuple[User, str, str, str, str, str]


class _Flow(Struct, frozen=True):
    """A flow schema: its rules, and the headers of its requests."""

    rules: Sequence[Mapping[str, Any]]
    headers: Mapping[str, str]


class Classifier:
    """Finds the flow schema of a request, and remembers it until schemas change."""

    def __init__(self, storage: Storage) -> None:
        self._schemas = storage.collection(SCHEMAS.resource)
        self._levels = storage.collection(LEVELS.resource)
        self._watchers: Sequence[Watcher] = ()
        self._flows: Sequence[_Flow] = ()
        self._known: dict[_Class, Mapping[str, str]] = {}

    def headers(self, user: User, attributes: Attributes) -> Mapping[str, str]:
        """Return the headers that name the schema and the level of a request.

        A request that lasts long and is no watch has none, as upstream.
        """
        if attributes.verb == "proxy" or attributes.subresource in _LONG_RUNNING:
            return {}
        if not self._watchers or any(each.take() for each in self._watchers):
            self._read()
        key = (
            user,
            attributes.verb,
            attributes.group,
            attributes.full_resource,
            attributes.namespace,
            attributes.path,
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[key] = self._find(user, attributes)
        return found

    def _find(self, user: User, attributes: Attributes) -> Mapping[str, str]:
        for flow in self._flows:
            if any(_matches(each, user, attributes) for each in flow.rules):
                return flow.headers
        return {}

    def _read(self) -> None:
        """Read all flow schemas whose priority level exists, in the order of matching.

        The catch-all schema comes last and matches every user.
        """
        if not self._watchers:
            both = (self._schemas, self._levels)
            self._watchers = [each.watch(each.version) for each in both]
        self._known.clear()
        self._flows = [
            _Flow(stored.obj["spec"].get("rules") or (), _headers(stored.obj, level))
            for stored in sorted(self._schemas, key=precedence_of)
            if (level := self._level_of(stored.obj)) is not None
        ]

    def _level_of(self, schema: JSON) -> JSON | None:
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        level = self._levels.get(("", name))
        return None if level is None else level.obj


def _headers(schema: JSON, level: JSON) -> Mapping[str, str]:
    return {
        "x-kubernetes-pf-flowschema-uid": schema["metadata"]["uid"],
        "x-kubernetes-pf-prioritylevel-uid": level["metadata"]["uid"],
    }


def _matches(rule: Mapping[str, Any], user: User, attributes: Attributes) -> bool:
    """Tell whether a rule of a schema matches a request of a user."""
    if not any(_is_subject(each, user) for each in rule.get("subjects") or ()):
        return False
    if attributes.path:
        return any(
            _among(attributes.verb, each["verbs"])
            and any(_covers(url, attributes.path) for url in each["nonResourceURLs"])
            for each in rule.get("nonResourceRules") or ()
        )
    return any(
        _among(attributes.verb, each["verbs"])
        and _among(attributes.full_resource, each["resources"])
        and _among(attributes.group, each["apiGroups"])
        and (
            _among(attributes.namespace, each.get("namespaces") or ())
            if attributes.namespace
            else bool(each.get("clusterScope"))
        )
        for each in rule.get("resourceRules") or ()
    )


def _is_subject(subject: JSON, user: User) -> bool:
    match subject["kind"]:
        case "User":
            return subject["user"]["name"] in ("*", user.name)
        case "Group":
            name = subject["group"]["name"]
            return name == "*" or name in user.groups
    account = subject["serviceAccount"]
    prefix = f"{_ACCOUNT}{account['namespace']}:"
    if account["name"] == "*":
        return user.name.startswith(prefix)
    return bool(user.name == prefix + account["name"])


def _among(value: str, listed: Sequence[str]) -> bool:
    """Tell whether a list has a value, or is a star alone."""
    return value in listed or (len(listed) == 1 and listed[0] == "*")


def _covers(url: str, path: str) -> bool:
    """Tell whether a URL of a rule is a path, or a directory around it."""
    if url in ("*", path):
        return True
    directory = url.removesuffix("*")
    return path.startswith(directory if directory.endswith("/") else f"{directory}/")
