"""The flags of a controller manager that runs in a pod, as its container has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from controller_manager.version import NAME

from .flag_set import FlagSet

NAMESPACE: Final = "kube-system"
LABEL: Final = "component=kube-controller-manager"
"""The label of kubeadm's static pods."""

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
"""The path of their list, which has LABEL as its selector."""

_PROGRAMS: Final = {"kube-controller-manager", NAME}
_SHORT: Final = {"v"}


class GivenFlags(Struct, frozen=True):
    """Flags with their values as written, in order; `unknown` are those of no name."""

    values: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()


def manager_container(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the container of a pod's spec that runs a manager, `None` if none does.

    It is known by its program, also behind a wrapper that redirects the log. A
    container with nothing but flags runs the program of its image; it counts only if
    no container names the program.
    """
    found: list[Mapping[str, Any]] = [
        each for each in spec.get("containers") or () if arguments_of(each) is not None
    ]
    return min(found, key=lambda each: _words(each)[0].startswith("-"), default=None)


def arguments_of(container: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the arguments of the manager, `None` if the container runs no manager."""
    words = _words(container)
    for position, word in enumerate(words):
        if word.rpartition("/")[2] in _PROGRAMS and not word.startswith("-"):
            return words[position + 1 :]
    if words and words[0].startswith("-"):
        return words
    return None


def _words(container: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(container.get("command") or ()), *(container.get("args") or ()))


def pod_in_charge(
    pods: Iterable[Mapping[str, Any]], holder: str
) -> Mapping[str, Any] | None:
    """Return the pod of a lease's holder, ``HOST_UUID``, of those that show flags.

    If it is not among them, return any, one that runs first; `None` without one.
    """
    shown = [each for each in pods if arguments_of_pod(each)]
    shown.sort(key=_is_away)
    leads = (
        each for each in shown if holder.startswith(f"{each['spec'].get('nodeName')}_")
    )
    return next(leads, shown[0] if shown else None)


def arguments_of_pod(pod: Mapping[str, Any]) -> Sequence[str]:
    """Return the arguments of the manager in a pod, none if it shows none."""
    container = manager_container(pod.get("spec") or {})
    return () if container is None else arguments_of(container) or ()


def _is_away(pod: Mapping[str, Any]) -> bool:
    """Tell whether a pod does not run, or is about to end."""
    ends = pod["metadata"].get("deletionTimestamp") is not None
    return ends or (pod.get("status") or {}).get("phase") != "Running"


def given_flags(arguments: Sequence[str], flags: FlagSet) -> GivenFlags:
    """Return the flags among arguments, as pflag reads them."""
    values: dict[str, tuple[str, ...]] = {}
    unknown = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and not word.startswith("--") and name[:1] in _SHORT:
            name, equals, value = name[0], equals or name[1:], value or name[1:]
        name = name.replace("_", "-")
        flag = flags.get(name) if word.startswith("-") else None
        if flag is None:
            unknown.append(word)
            continue
        if not equals:
            value = "true" if flag.type == "bool" else next(words, "")
        values[name] = (*values.get(name, ()), value)
    return GivenFlags(values, tuple(unknown))
