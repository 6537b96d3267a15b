"""PodGroup: pods of a group; this scheduler does not schedule them together."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import NameAndAge
from controller_manager.devcluster.validation.conditions import CONDITIONS
from controller_manager.devcluster.validation.text import table

from .policy import SCHEDULING_POLICY

_RULES: Final = table(
    """
    spec:
      schedulingPolicy always:
        include POLICY
    """,
    POLICY=SCHEDULING_POLICY,
)
_UPDATE: Final = table(
    """
    spec change:
      disruptionMode, podGroupTemplateRef, priority, priorityClassName: immutable
      resourceClaims, schedulingConstraints, schedulingPolicy: immutable
    """
)
_STATUS: Final = table(
    """
    status:
      include CONDITIONS
    """,
    CONDITIONS=CONDITIONS,
)


class PodGroupStrategy(NameAndAge):
    """The spec never changes."""

    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    status_rules: ClassVar = _STATUS

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the mode of disruptions."""
        obj.setdefault("spec", {}).setdefault("disruptionMode", "Pod")


KIND: Final = kind_of("scheduling.k8s.io/v1alpha2", "podgroups", PodGroupStrategy())
