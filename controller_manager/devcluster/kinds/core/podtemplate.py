"""PodTemplate: a pod template as an object of its own."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import (
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column
from controller_manager.devcluster.validation.pods import POD_TEMPLATE


class PodTemplateStrategy(Strategy):
    """Counts the changes of the template as generations."""

    counts_generations: ClassVar = True
    rules: ClassVar = POD_TEMPLATE
    columns: ClassVar = (
        NAME,
        Column("Containers"),
        Column("Images"),
        Column("Pod Labels"),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the template."""
        default_template(obj)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        del now
        template = obj["template"]
        labels = {"matchLabels": template.get("metadata", {}).get("labels", {})}
        return [name_of(obj), *container_cells(template), selector_text(labels)]


KIND: Final = kind_of("v1", "podtemplates", PodTemplateStrategy())
