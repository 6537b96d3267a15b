"""The configuration of leader migration, which assigns controllers to managers.

Upstream: k8s.io/controller-manager, pkg/leadermigration/config. It is a file of its
own, of the kind LeaderMigrationConfiguration.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controller_manager.version import COMPONENT
from controller_manager.yaml_files import UnreadableFile, read_document

_ANY: Final = "*"
_KIND: Final = "LeaderMigrationConfiguration"
_GROUP: Final = "controllermanager.config.k8s.io"
_VERSIONS: Final = tuple(f"{_GROUP}/{each}" for each in ("v1", "v1beta1", "v1alpha1"))
_FIELDS: Final = frozenset(
    ("apiVersion", "kind", "leaderName", "resourceLock", "controllerLeaders")
)


@dataclass(frozen=True, slots=True)
class LeaderMigrationConfig:
    """The component that runs each controller under the lease of the migration.

    `leader_name` is the name of that lease. `components` has the component of each
    controller that takes part, by the name or alias that the file has; ``*`` is any.
    """

    leader_name: str = "cloud-provider-extraction-migration"
    components: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(
            ("route", "service", "cloud-node-lifecycle"), _ANY
        )
    )

    def component_of(self, *names: str) -> str | None:
        """Return the component that runs a controller, by its name and aliases.

        `None` if it takes no part in the migration, and "kube-controller-manager" if
        any component may run it.
        """
        for name in names:
            if name in self.components:
                component = self.components[name]
                return COMPONENT if component == _ANY else component
        return None


def read_leader_migration(path: str) -> tuple[LeaderMigrationConfig | None, list[str]]:
    """Return the configuration in a file, upstream's default without one.

    Returns `None` and the problems, one line each, if it cannot be used.
    """
    if not path:
        return LeaderMigrationConfig(), []
    try:
        document = read_document(Path(path), path)
    except UnreadableFile as error:
        return None, [str(error)]
    problems = [f"{path}: {each}" for each in _problems(document)]
    if problems:
        return None, problems
    leaders = document.get("controllerLeaders") or ()
    components = {each["name"]: each["component"] for each in leaders}
    return LeaderMigrationConfig(document["leaderName"], components), []


def unknown_fields(path: str) -> list[str]:
    """Return the fields of a usable file that its kind does not have."""
    return sorted(set(read_document(Path(path), path)) - _FIELDS) if path else []


def _problems(document: Any) -> Iterator[str]:  # noqa: ANN401 - any YAML
    """Yield what upstream's validation refuses, in its words."""
    if not isinstance(document, dict):
        yield "its top level is not a mapping"
        return
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind != _KIND or version not in _VERSIONS:
        yield f"must be a {_KIND} of {_VERSIONS[0]}, it is {kind} of {version}"
        return
    if not _is_text(document.get("leaderName")):
        yield "leaderName: Required value: leaderName must be set for " + _KIND
    lock = document.get("resourceLock") or "leases"
    if lock != "leases":
        yield f'resourceLock: Invalid value: "{lock}": resource Lock must be "leases"'
    leaders = document.get("controllerLeaders") or []
    if not isinstance(leaders, list):
        yield "controllerLeaders: must be a list"
        return
    for number, leader in enumerate(leaders):
        where = f"controllerLeaders[{number}]"
        if not isinstance(leader, dict):
            yield f"{where}: must be a mapping with name and component"
            continue
        for name in ("component", "name"):
            if not _is_text(leader.get(name)):
                yield f"{where}.{name}: Required value: {name} must be set"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
