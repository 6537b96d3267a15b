"""The admission plugin PodSecurity: the levels of namespaces, and their enforcement.

Upstream: k8s.io/pod-security-admission, its packages api and admission.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.admission import Operation, Write
from controller_manager.devcluster.registry.kinds import name_of
from controller_manager.devcluster.scheme import statuses

from .pod_security_checks import (
    CONTAINER_LISTS,
    LEVELS,
    PRIVILEGED,
    RESTRICTED,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    violations,
)
from .writes import BuiltInPlugin, annotations_of, concerns, object_of, refused

# The levels in the labels of a namespace.

LATEST: Final = 10**9
"""The minor version ``latest``, which is later than all others."""

_PREFIX: Final = "pod-security.kubernetes.io/"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)
_WRONG_LEVEL: Final = f"must be one of {', '.join(LEVELS)}"
_WRONG_VERSION: Final = 'must be "latest" or "v1.x"'


class LevelVersion(NamedTuple):
    """A level in the form of a minor version of Kubernetes."""

    level: str = PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        """Return the text for messages, such as ``baseline:v1.30``."""
        version = "latest" if self.minor == LATEST else f"v1.{self.minor}"
        return f"{self.level}:{version}"

    def is_stricter_than(self, other: "LevelVersion") -> bool:
        """Compare the levels alone."""
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    """The policy of a namespace: the levels for enforcement and for warnings."""

    enforce: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()


_NO_POLICY: Final = Policy()
_LABELS: Final = frozenset(
    f"{_PREFIX}{mode}{end}"
    for mode in ("audit", "enforce", "warn")
    for end in ("", "-version")
)


def policy_of(labels: dict[str, str]) -> tuple[Policy, list[statuses.Cause]]:
    """Return the policy of a namespace, and the errors in its labels.

    Without a level for warnings, that of enforcement counts. A wrong level counts as
    ``restricted`` where it is enforced, and as ``privileged`` elsewhere; a wrong
    version counts as the latest. (PolicyToEvaluate)
    """
    causes: list[statuses.Cause] = []
    if _LABELS.isdisjoint(labels):
        return _NO_POLICY, causes
    enforce = _level_version(labels, "enforce", RESTRICTED, causes)
    _level_version(labels, "audit", PRIVILEGED, causes)
    warn = _level_version(labels, "warn", PRIVILEGED, causes)
    if f"{_PREFIX}warn" not in labels and labels.get(f"{_PREFIX}enforce") in LEVELS:
        has_version = f"{_PREFIX}warn-version" in labels
        warn = LevelVersion(enforce.level, (warn if has_version else enforce).minor)
    return Policy(enforce, warn), causes


def _level_version(
    labels: dict[str, str], mode: str, wrong: str, causes: list[statuses.Cause]
) -> LevelVersion:
    """Read the two labels of a mode; add their errors to `causes`."""
    level = labels.get(f"{_PREFIX}{mode}", PRIVILEGED)
    if level not in LEVELS:
        causes.append(_wrong_label(f"{_PREFIX}{mode}", level, _WRONG_LEVEL))
        level = wrong
    text = labels.get(f"{_PREFIX}{mode}-version", "latest")
    match = _VERSION.fullmatch(text)
    if match is None and text != "latest":
        causes.append(_wrong_label(f"{_PREFIX}{mode}-version", text, _WRONG_VERSION))
    return LevelVersion(level, int(match[1]) if match else LATEST)


def _wrong_label(label: str, value: str, why: str) -> statuses.Cause:
    return statuses.invalid(f"metadata.labels[{label}]", statuses.shown(value), why)


# The plugin.

_MOST_PODS: Final = 3000
"""The most checked pods of a namespace when it enforces another level."""

_IGNORED: Final = frozenset(
    ("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")
)
"""Subresources that do not change the fields of the checks."""

_TEMPLATE: Final = ("spec", "template")
_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): _TEMPLATE,
    ("apps", "daemonsets"): _TEMPLATE,
    ("apps", "deployments"): _TEMPLATE,
    ("apps", "replicasets"): _TEMPLATE,
    ("apps", "statefulsets"): _TEMPLATE,
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "jobs"): _TEMPLATE,
}
"""The path of the pod template in each resource."""


class PodSecurity(BuiltInPlugin):
    """Refuses pods that the labels of their namespace do not allow, and warns."""

    name: ClassVar = "PodSecurity"
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def validate(self, write: Write) -> None:
        """Raise Refusal for a pod that is not allowed, and for wrong labels."""
        resource = (write.kind.group, write.kind.plural)
        if concerns(write, "", "namespaces"):
            self._check_namespace(write)
        elif resource == ("", "pods") and write.subresource not in _IGNORED:
            self._check_pod(write)
        elif resource in _TEMPLATES and not write.subresource:
            self._warn_about_template(write, _TEMPLATES[resource])

    def _labels(self, namespace: str) -> dict[str, str]:
        stored = self._storage.collection("namespaces").get(("", namespace))
        return stored.obj["metadata"].get("labels") or {} if stored else {}

    # Pods

    def _check_pod(self, write: Write) -> None:
        policy, _ = policy_of(self._labels(write.namespace))
        if policy.enforce.level == policy.warn.level == PRIVILEGED:
            return
        pod = object_of(write)
        if write.old is not None and not _is_significant(write.old, pod):
            return
        found = violations(*policy.enforce, pod["metadata"], pod["spec"])
        if found:
            why = f'violates PodSecurity "{policy.enforce}": {_listed(found)}'
            raise refused(write, why)
        if policy.warn != policy.enforce:
            _warn(write, policy.warn, pod)

    def _warn_about_template(self, write: Write, path: tuple[str, ...]) -> None:
        policy, _ = policy_of(self._labels(write.namespace))
        template: Any = object_of(write)
        for name in path:
            template = (template or {}).get(name)
        if template and policy.warn.level != PRIVILEGED:
            _warn(write, policy.warn, template)

    # Namespaces

    def _check_namespace(self, write: Write) -> None:
        metadata = object_of(write)["metadata"]
        new, wrong = policy_of(metadata.get("labels") or {})
        old = None
        if write.old is not None:
            old, wrong_before = policy_of(write.old["metadata"].get("labels") or {})
            if [*map(str, wrong)] == [*map(str, wrong_before)]:
                wrong = []
        if wrong:
            raise statuses.invalid_object(
                "", "Namespace", metadata.get("name", ""), wrong
            )
        if old is None or new.enforce == old.enforce:
            return
        is_relaxed = new.enforce.minor == old.enforce.minor and not (
            new.enforce.is_stricter_than(old.enforce)
        )
        if new.enforce.level != PRIVILEGED and not is_relaxed:
            for warning in self._warnings(metadata["name"], new.enforce):
                write.warn(warning)

    def _warnings(self, namespace: str, enforced: LevelVersion) -> Iterator[str]:
        pods = [
            stored.obj
            for stored in self._storage.collection("pods")
            if stored.obj["metadata"].get("namespace") == namespace
        ]
        counts, names = Counter[str](), dict[str, str]()
        for pod in pods[:_MOST_PODS]:
            found = violations(*enforced, pod["metadata"], pod["spec"])
            if found:
                reason, name = ", ".join(each.reason for each in found), name_of(pod)
                counts[reason] += 1
                names[reason] = min(name, names.get(reason, name))
        if len(pods) > _MOST_PODS:
            about = "new PodSecurity enforce level only checked against the first"
            yield f"{about} {_MOST_PODS} of {len(pods)} existing pods"
        if counts:
            what = "violate the new PodSecurity enforce level"
            yield f'existing pods in namespace "{namespace}" {what} "{enforced}"'
        lines = (
            f"{_with_others(names[each], counts[each])}: {each}" for each in counts
        )
        # Upstream sorts the lines after it has put the names before them.
        yield from sorted(lines)


def _with_others(name: str, count: int) -> str:
    if count == 1:
        return name
    others = "1 other pod" if count == 2 else f"{count - 1} other pods"
    return f"{name} (and {others})"


def _listed(found: list[Any]) -> str:
    return ", ".join(map(str, found))


def _warn(write: Write, level: LevelVersion, pod: JSON) -> None:
    found = violations(*level, pod.get("metadata") or {}, pod.get("spec") or {})
    if found:
        write.warn(f'would violate PodSecurity "{level}": {_listed(found)}')


def _is_significant(old: JSON, new: JSON) -> bool:
    """Tell whether an update changes the fields of the checks.

    These are images, containers, and the annotations that fields have replaced.
    """
    before, after = (
        [
            (each.get("name"), each.get("image"))
            for field in CONTAINER_LISTS
            for each in pod["spec"].get(field) or ()
        ]
        for pod in (old, new)
    )
    return before != after or _seccomp(old) != _seccomp(new)


def _seccomp(pod: JSON) -> dict[str, str]:
    return {
        key: value
        for key, value in annotations_of(pod).items()
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER)
    }
