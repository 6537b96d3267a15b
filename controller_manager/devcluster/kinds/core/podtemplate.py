"""PodTemplate: a pod template as an object of its own."""

from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy

JSON = dict[str, Any]


class PodTemplateStrategy(Strategy):
    """Counts the changes of the template as generations."""

    counts_generations: ClassVar = True

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the template."""
        default_template(obj)


KIND: Final = Kind(
    "",
    "v1",
    "PodTemplate",
    "podtemplates",
    model="V1PodTemplate",
    strategy=PodTemplateStrategy(),
)
