"""Workload: the groups of pods that belong together, such as those of a job."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.validation.text import table

from .policy import SCHEDULING_POLICY


def _named(template: JSON) -> JSON:
    return {"name": template.get("name", "")}


_RULES: Final = table(
    """
    spec:
      controllerRef:
        kind, name: required
      podGroupTemplates: required
      podGroupTemplates: most 8
      podGroupTemplates[]:
        name: unique pointer at self show named
        name: label default empty
        schedulingPolicy always:
          include POLICY
    """,
    _named,
    POLICY=SCHEDULING_POLICY,
)
_UPDATE: Final = table(
    """
    spec change:
      controllerRef: immutable if outer has controllerRef
      podGroupTemplates: immutable
    """
)


class WorkloadStrategy(NameAndAge):
    """The spec never changes, but an absent reference to a controller may be set."""

    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE


KIND: Final = kind_of("scheduling.k8s.io/v1alpha2", "workloads", WorkloadStrategy())
