"""The recordings of the real kube-controller-manager 1.36.2.

Each family has a directory, ``tests/data/recordings/FAMILY``, with one file for each
scenario, and in ``ARGS`` the flags with which the real manager and API server ran.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.cli.flags import make_config as config_from_flags
from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock
from controller_manager.devcluster.scheme.patches import json_patch
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from controller_manager.registry import registry
from tests.clusters import EPOCH, NAMESPACES, Cluster, Write, make_config
from tests.conformance import normalise, whole
from tests.conformance.access import Other, other
from tests.conformance.arguments import Arguments, arguments, with_files
from tests.conformance.deliberate import AMENDMENTS
from tests.conformance.heartbeats import with_heartbeats
from tests.conformance.managers import SwitchedManager
from tests.conformance.normalise import GroupedForm
from tests.conformance.player import QUIET, Player
from tests.conformance.subjects import SUBJECTS, Subject
from tests.conformance.whole import WholeForm
from tests.conformance.writes import concerns

DIRECTORY: Final = Path(__file__).parents[1] / "data" / "recordings"

_GROUPED: Final = ("apps", "lifecycle")
"""Families in the first form; all others are in the second."""

_KNOWN_FIELDS: Final = {
    "name",
    "about",
    "kinds",
    "customkinds",
    "mask",
    "quiet",
    "podfields",
    "ignore",
    "pack",
    "also",
    "cluster_events",
    "steps",
    "checkpoints",
    "writes",
}
"""The fields that a recording may have; a recording with others is refused.

`customkinds` has paths of kinds, which the module `paths` knows as well. `quiet` are
the seconds without a change before a checkpoint, `podfields` the paths of
more fields in which pods are shown. Everything that matches a pattern of `mask` is the
same; events that match a pattern of `ignore` differ from run to run. `also` names
objects of other namespaces. With `cluster_events`, the events about cluster-scoped
objects are shown. With `pack`, chance decides which endpoint is in which slice.
"""

AS_UPSTREAM: Final[Mapping[str, str]] = {
    "sts-stuck-rollback": "--statefulset-replace-stuck-pods=false"
}
"""Flags of ours that switch off a deliberate difference, by the recording that shows
what upstream does."""


ACT_ON_THE_SAME: Final[Mapping[str, Sequence[str]]] = {
    # It makes a config map in each namespace.
    "job": ("root-ca-certificate-publisher-controller",),
    # They taint the nodes, which send no heartbeats, and delete their pods.
    "daemonset": ("node-lifecycle-controller", "taint-eviction-controller"),
    # They annotate and taint the nodes.
    "nodeipam": ("ttl-controller", "node-lifecycle-controller"),
    "nodeipamdual": ("ttl-controller", "node-lifecycle-controller"),
    # It says in events that no volume fits the claims.
    "statefulset": ("persistentvolume-binder-controller",),
}
"""Controllers that did not run when a family was recorded, and that change the objects
that its checkpoints show."""


WITH_ROLES: Final = frozenset(("auth-csr-kubelet-client",))
"""Recordings in which roles decide, also where controllers are not confined."""


@dataclass(frozen=True)
class Recording:
    """One recorded scenario."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def family(self) -> str:
        """The name of its directory: scenarios that were recorded together."""
        return self.path.parent.name

    @cached_property
    def _content(self) -> JSON:
        content: JSON = json.loads(self.path.read_text())
        if unknown := sorted(content.keys() - _KNOWN_FIELDS):
            msg = f"recordings/{self.family}/{self.path.name}: what is {unknown[0]}?"
            raise ValueError(msg)
        if self.name in AMENDMENTS:
            content = json_patch(content, list(AMENDMENTS[self.name].patch))
        return content

    @property
    def steps(self) -> list[JSON]:
        steps: list[JSON] = self._content["steps"]
        return with_heartbeats(steps) if self.family == "volumes" else steps

    @property
    def custom_kinds(self) -> Mapping[str, Sequence[Any]]:
        """The prefix of the path, the plural and the scope of kinds that it names."""
        found: Mapping[str, Sequence[Any]] = self._content.get("customkinds", {})
        return found

    @property
    def settled_after(self) -> float:
        """Seconds without a change after which no more changes come.

        Upstream's checkpoints may be taken while slow controllers wait: in the second
        form for a minute, as the pod garbage collector does.
        """
        if self.goes_by_minutes:
            return 20.0
        return 30.0 if self.family in _GROUPED else 90.0

    @property
    def goes_by_minutes(self) -> bool:
        """True if something happens each minute: the cluster is never at rest."""
        return any("second" in each for each in self.steps)

    @cached_property
    def _arguments(self) -> Arguments:
        text = (self.path.parent / "ARGS").read_text()
        return arguments(with_files(text), AS_UPSTREAM.get(self.name, ""))

    def config(self, **generic: Any) -> Config:
        """Return a config with the flags of its family, and those of `AS_UPSTREAM`.

        `generic` changes the config. It is for one manager, without rate limits, that
        serves nothing. Raises ValueError for an unknown flag, Failure for an invalid
        value.
        """
        given = self._arguments.manager
        flags = config_from_flags(given, [])
        if unknown := sorted(given.keys() - flags.flags.keys()):
            msg = f"recordings/{self.family}/ARGS: --{unknown[0]}: no such flag"
            raise ValueError(msg)
        given_generic = {
            "controllers": flags.generic.controllers,
            "node_monitor_period": flags.generic.node_monitor_period,
        }
        ours = make_config(**(given_generic | generic))
        return replace(
            flags, client=ours.client, generic=ours.generic, serving=ours.serving
        )

    def config_of_all(self, **generic: Any) -> Config:
        """Return the config of its family with all controllers enabled.

        Those of `ACT_ON_THE_SAME` are left out.
        """
        named = [each for each in self.config().generic.controllers if each != "*"]
        left_out = [f"-{each}" for each in ACT_ON_THE_SAME.get(self.family, ())]
        return self.config(controllers=("*", *named, *left_out), **generic)

    def is_playable(self) -> bool:
        """Tell whether this build has all controllers that it is about."""
        unknown, _ = registry().check_selection(self.needs)
        return not unknown

    @property
    def needs(self) -> tuple[str, ...]:
        """The controllers that it is about."""
        subject = self._subject
        return subject.controllers if subject else self.config().generic.controllers

    @property
    def _subject(self) -> Subject | None:
        return SUBJECTS.get(self.name) or SUBJECTS.get(self.family)

    @property
    def _names_controllers(self) -> bool:
        """True if the family names its controllers; otherwise all were running."""
        return "*" not in self.config().generic.controllers

    def compared(self, writes: Sequence[JSON]) -> Sequence[JSON]:
        """Return those of normalised writes that are compared word by word.

        No objects are compared if chance decides about their content.
        """
        if self._names_controllers:
            return writes
        subject = self._subject
        if subject is None or self._content.get("pack"):
            return ()
        return [
            each
            for each in writes
            if each["resource"].partition("/")[0] in subject.resources
        ]

    def cluster(self, *, rbac: bool = False) -> Cluster:
        """Return an empty cluster, at a time of day as when upstream was recorded.

        At midnight cron jobs that run daily would be due.
        """
        features = FeatureGates(self._arguments.server_gates)
        epoch = EPOCH + timedelta(hours=10)
        cluster = Cluster(
            rbac=rbac or self.name in WITH_ROLES,
            features=features,
            epoch=epoch,
            service_cluster_ip_range=self._arguments.service_cluster_ip_range,
        )
        for namespace in {each.namespace for each in self._others} - NAMESPACES:
            cluster.add_namespace(namespace)
        return cluster

    @property
    def _others(self) -> list[Other]:
        return [other(each) for each in self._content.get("also", ())]

    def form(self) -> GroupedForm | WholeForm:
        """Return the form of the checkpoints, without any alias yet."""
        kinds: Sequence[str] = self._content.get("kinds", ())
        return GroupedForm(kinds) if self.family in _GROUPED else self.whole_form()

    def whole_form(self) -> WholeForm:
        """Return the second form with what this recording says about it."""
        names = ("kinds", "mask", "podfields", "ignore", "also")
        return WholeForm(
            *(self._content.get(each, ()) for each in names),
            cluster_events=self._content.get("cluster_events", False),
            pack=self._content.get("pack", False),
        )

    def player(
        self,
        transport: Transport,
        clock: Clock,
        manager: SwitchedManager,
        form: GroupedForm | WholeForm | None = None,
        **patience: float,
    ) -> Player:
        """Return the player of the steps; `patience` as in Player, in seconds.

        Checkpoints have the form of the recording, or `form`. The pod garbage collector
        looks at all pods when it starts, and every 20 seconds: its first look must not
        fall between two steps.
        """
        patience = {"quiet": self._content.get("quiet", QUIET), **patience}
        form = form or self.form()
        return Player(
            transport,
            self.name,
            clock,
            form,
            manager,
            delay=1.0 if self.family == "podgc" else 0.0,
            **patience,
        )

    def expected(self) -> list[JSON]:
        """Return the checkpoints without the parts that upstream does not repeat."""
        return self.comparable(self._content["checkpoints"])

    def comparable(self, checkpoints: list[JSON]) -> list[JSON]:
        """Drop the parts of checkpoints that upstream does not repeat."""
        return [
            {**each, "state": self._comparable(each["state"])}
            if "state" in each
            else each
            for each in checkpoints
        ]

    def _comparable(self, state: JSON) -> JSON:
        if self.family not in _GROUPED:
            return whole.comparable(state, self._content.get("ignore", ()))
        entries = normalise.comparable(state)
        return {kind: each for kind, each in entries.items() if each}

    @property
    def writes(self) -> list[JSON]:
        writes: list[JSON] = self._content["writes"]
        return writes

    def most_writes(self) -> int:
        """Return the number of recorded writes plus 10 %, at least two."""
        return most(len(self.writes))

    def most_accepted(self) -> int:
        """Return the number of recorded writes that were not refused, plus 10 %."""
        return most(sum(each["code"] < HTTPStatus.BAD_REQUEST for each in self.writes))

    def writes_of(self, writes: Iterable[Write]) -> list[Write]:
        """Return the writes to the scenario's namespace and to its objects."""
        others = self._others
        return [each for each in writes if concerns(each, self.name, others)]


def most(recorded: int) -> int:
    """Return how many writes may be sent where upstream sent so many."""
    return recorded + max(2, recorded // 10)


def find_recordings(directory: Path = DIRECTORY) -> Mapping[str, Recording]:
    """Return all recordings of all families by name; each name must be unique."""
    paths = sorted(directory.glob("*/*.json"))
    found = {path.stem: Recording(path) for path in paths}
    assert len(found) == len(paths)
    return found


ALL_RECORDINGS: Final = find_recordings()
"""All recordings by name."""

FAULTS: Final[Mapping[str, str]] = {
    "cron-forgotten": "tests/controllers/batch/cronjob/test_on_cluster.py"
}
"""Recordings that show only a fault of upstream, which this build does not have;
for each the tests that play its subject."""

RECORDINGS: Final = {
    name: each
    for name, each in ALL_RECORDINGS.items()
    if each.is_playable() and name not in FAULTS
}
"""The recordings that the tests play: those whose controllers are in this build."""
