"""All flags of a build: the general ones, and those of its controllers.

A flag is a field of the configuration file, too; other fields have no flag.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from .flag import Flag, FlagType
from .gates import Gate, describe
from .general_flags import GENERAL_FLAGS

FILE_ONLY: Final[tuple[tuple[str, FlagType, Any], ...]] = (
    ("Generic.Port", "int32", 0),
    ("Generic.Address", "string", "0.0.0.0"),  # noqa: S104 - upstream's default
    ("Generic.ClientConnection.acceptContentTypes", "string", ""),
    ("KubeCloudShared.AllowUntaggedCloud", "bool", False),
    ("KubeCloudShared.NodeSyncPeriod", "duration", "0s"),
    ("NodeIPAMController.SecondaryServiceCIDR", "string", ""),
    ("NodeLifecycleController.PodEvictionTimeout", "duration", "0s"),
    (
        (
            "PersistentVolumeBinderController.VolumeConfiguration"
            ".PersistentVolumeRecyclerConfiguration.MaximumRetry"
        ),
        "int32",
        3,
    ),
)
"""Fields of upstream's configuration that no flag sets; none has an effect."""

CARRIED: Final[Mapping[str, Any]] = {
    "Generic.LeaderMigration": {
        "leaderName": "",
        "resourceLock": "",
        "controllerLeaders": None,
    },
    "DeprecatedController": {},
    "GarbageCollectorController.GCIgnoredResources": [
        {"Group": "", "Resource": "events"},
        {"Group": "events.k8s.io", "Resource": "events"},
    ],
}
"""Fields of upstream's configuration that are read and shown, without an effect."""

RESERVED: Final = frozenset(
    ("apiVersion", "kind", *(path for path, _, _ in FILE_ONLY), *CARRIED)
)
"""Paths that no flag may have."""

_SECTIONS: Final = (
    "Debugging",
    "Leader-migration",
    "Generic",
    "Service-lb-controller",
    "Secure serving",
    "Authentication",
    "Authorization",
    "Persistentvolume-attach-detach-controller",
    "Certificatesigningrequest-signing-controller",
    "Deployment-controller",
    "Device-taint-eviction-controller",
    "Resourceclaim-controller",
    "Statefulset-controller",
    "Daemonset-controller",
    "Endpoints-controller",
    "Endpointslice-controller",
    "Endpointslice-mirroring-controller",
    "Ephemeral-volume-controller",
    "Garbage-collector-controller",
    "Horizontal-pod-autoscaler-controller",
    "Job-controller",
    "Cronjob-controller",
    "Legacy-serviceaccount-token-cleaner-controller",
    "Namespace-controller",
    "Node-ipam-controller",
    "Node-lifecycle-controller",
    "Persistentvolume-binder-controller",
    "Pod-garbage-collector-controller",
    "Replicaset-controller",
    "Replicationcontroller-controller",
    "Resourcequota-controller",
    "Serviceaccount-controller",
    "Ttl-after-finished-controller",
    "Validatingadmissionpolicy-status-controller",
)
"""Sections in the order of upstream's help. The sections of other controllers come
after them."""

_LAST: Final = ("Metrics", "Logs", "Misc")

_OF_CLOUDS: Final = "Service-lb-controller"


class DuplicateFlag(ValueError):
    """Two controllers declare a flag of the same name."""


class FlagSet:
    """Flags by name, in the order of upstream's help: sections, then names.

    A controller may declare a flag of cloud providers, which keeps its place then.
    """

    def __init__(
        self,
        declared: Iterable[Flag] = (),
        controllers: Iterable[str] = (),
        gates: Iterable[Gate] = (),
        general: Iterable[Flag] = GENERAL_FLAGS,
    ) -> None:
        """Take the flags that the `controllers` of this build declare, and gates.

        `general` are the flags of no particular controller.

        Raises DuplicateFlag for a name, or a field of the configuration file, that is
        declared twice.
        """
        own: dict[str, Flag] = {}
        for flag in (*general, *declared):
            known = own.get(flag.name)
            if known is None:
                own[flag.name] = flag
            elif known.section == _OF_CLOUDS:
                own[flag.name] = replace(flag, path=known.path, section=_OF_CLOUDS)
            else:
                msg = (
                    f"--{flag.name} of {flag.section} is already a flag of "
                    f"{known.section}; choose another name"
                )
                raise DuplicateFlag(msg)
        of_gates = own["feature-gates"]
        own[of_gates.name] = replace(
            of_gates, help=f"{of_gates.help}\n{describe(gates)}"
        )
        _check_paths(own.values())
        ordered = sorted(own.values(), key=lambda each: (_rank(each), each.name))
        self._flags: Mapping[str, Flag] = {flag.name: flag for flag in ordered}
        self._controllers = frozenset(controllers)

    def __iter__(self) -> Iterator[Flag]:
        """Iterate over the flags in order."""
        return iter(self._flags.values())

    def __getitem__(self, name: str) -> Flag:
        """Return the flag of a name, without leading dashes.

        Raises KeyError for an unknown name.
        """
        return self._flags[name]

    def get(self, name: str) -> Flag | None:
        """Return the flag of a name, `None` if there is none."""
        return self._flags.get(name)

    @property
    def names(self) -> list[str]:
        """The names of all flags."""
        return list(self._flags)

    @property
    def offered(self) -> list[Flag]:
        """The flags that the command line takes."""
        return [flag for flag in self if not flag.hidden]

    def inert(self, flag: Flag) -> str:
        """Return why a flag has no effect in this build, empty if it has one."""
        if flag.inert or not flag.used_by or self._controllers & {*flag.used_by}:
            return flag.inert
        return f"this build has no {' or '.join(flag.used_by)}"


def _check_paths(flags: Iterable[Flag]) -> None:
    """Raise DuplicateFlag if a field would hold two values, or a value and fields."""
    owners = dict.fromkeys(RESERVED, "no flag")
    for flag in flags:
        if flag.path in owners:
            msg = (
                f"--{flag.name} of {flag.section} has the configuration field "
                f"{flag.path}, which is one of {owners[flag.path]}; choose another path"
            )
            raise DuplicateFlag(msg)
        owners[flag.path] = f"--{flag.name}"
    for path, owner in owners.items():
        parents = path.split(".")[:-1]
        for depth in range(1, len(parents) + 1):
            if (parent := ".".join(parents[:depth])) in owners:
                msg = (
                    f"the configuration field {path} of {owner} is inside of {parent} "
                    f"of {owners[parent]}; choose another path"
                )
                raise DuplicateFlag(msg)


def _rank(flag: Flag) -> tuple[int, int, str]:
    if flag.section in _SECTIONS:
        return (0, _SECTIONS.index(flag.section), "")
    if flag.section in _LAST:
        return (2, _LAST.index(flag.section), "")
    return (1, 0, flag.section)


def suggest(name: str, known: Iterable[str], prefix: str = "--") -> str:
    """Return ``; did you mean …?`` for the nearest known names, or nothing."""
    close = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    if not close:
        return ""
    return "; did you mean " + " or ".join(f"{prefix}{each}" for each in close) + "?"
