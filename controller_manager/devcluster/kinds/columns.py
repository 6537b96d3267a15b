"""Columns and cells that several kinds show (pkg/printers)."""

from datetime import datetime
from typing import ClassVar, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

CONTAINERS: Final = (
    Column("Containers", priority=1),
    Column("Images", priority=1),
)
SELECTOR: Final = Column("Selector", priority=1)
REPLICAS: Final = (
    NAME,
    Column("Desired", "integer"),
    Column("Current", "integer"),
    Column("Ready", "integer"),
    AGE,
    *CONTAINERS,
    SELECTOR,
)
"""The columns of replica sets and replication controllers."""


class NameAndAge(Strategy):
    """A kind whose table shows the names and the ages of objects."""

    columns: ClassVar = (NAME, AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return [name_of(obj), age(obj, now)]


def name_of(obj: JSON) -> str:
    """Return an object's name."""
    return str(obj["metadata"]["name"])


def selector_text(selector: JSON | None) -> str:
    """Return a label selector as kubectl shows it."""
    if not selector:
        return NONE
    return format_selector(msgspec.convert(selector, LabelSelector)) or NONE


def container_cells(template: JSON) -> Cells:
    """Return the names and the images of a template's containers."""
    containers = template.get("spec", {}).get("containers", [])
    return [
        ",".join(each.get("name", "") for each in containers),
        ",".join(each.get("image", "") for each in containers),
    ]


def data_count(obj: JSON) -> int:
    """Return the number of entries in ``data``."""
    return len(obj.get("data", {})) + len(obj.get("binaryData", {}))
