"""The type of a check of the Pod Security Standards, and shared texts."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from controller_manager.api.json_objects import JSON

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


class Violation(NamedTuple):
    """The violation of a check by a pod: a short reason, and the details."""

    reason: str
    detail: str

    def __str__(self) -> str:
        """Return both, as the message about one pod shows them."""
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


CheckPod = Callable[[JSON, JSON], Violation | None]
"""Takes the metadata and the spec of a pod."""


class Check(NamedTuple):
    """A check: its forms by the minor version of Kubernetes that introduced them."""

    name: str
    versions: tuple[tuple[int, CheckPod], ...]
    overrides: str = ""
    """The check of the level ``baseline`` that this check replaces."""

    def at(self, minor: int) -> CheckPod | None:
        """Return the form of the check in a minor version, if there is one."""
        forms = [form for since, form in self.versions if since <= minor]
        return forms[-1] if forms else None


def containers_of(spec: JSON) -> Iterator[JSON]:
    """Yield all containers of a pod, in the order in which upstream visits them."""
    for name in CONTAINER_LISTS:
        yield from spec.get(name) or ()


def security_of(holder: JSON) -> JSON:
    """Return the security context of a pod's spec or of a container."""
    found: JSON = holder.get("securityContext") or {}
    return found


def quoted(names: Iterable[str]) -> str:
    """Return names in quotation marks, with commas between."""
    return ", ".join(f'"{name}"' for name in names)


def counted(one: str, many: str, names: list[str]) -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return f"{one if len(names) == 1 else many} {quoted(names)}"


def containers(names: list[str]) -> str:
    """Return ``container "a"`` or ``containers "a", "b"``."""
    return counted("container", "containers", names)


def setters(*, pod: bool, names: list[str]) -> str:
    """Return the subject of a message: the pod, some containers, or both."""
    return " and ".join(
        [*(["pod"] if pod else []), *([containers(names)] * bool(names))]
    )


def names_of(spec: JSON, is_bad: Callable[[JSON], bool]) -> list[str]:
    """Return the names of the containers that are bad."""
    return [each.get("name", "") for each in containers_of(spec) if is_bad(each)]


def runs_on_windows(spec: JSON) -> bool:
    """Tell whether a pod names Windows as its operating system."""
    return bool((spec.get("os") or {}).get("name") == "windows")


def has_user_namespace(spec: JSON) -> bool:
    """Tell whether a pod has its own user namespace."""
    return spec.get("hostUsers") is False
