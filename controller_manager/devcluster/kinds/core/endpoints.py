"""Endpoints: the addresses of a service's pods."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

JSON = dict[str, Any]

_SHOWN: Final = 3


class EndpointsStrategy(Strategy):
    """Shows the first addresses, and the number of the others."""

    columns: ClassVar = (NAME, Column("Endpoints"), AGE)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        found = [
            f"{address['ip']}:{port['port']}"
            for subset in obj.get("subsets", ())
            for port in subset.get("ports", ())
            for address in subset.get("addresses", ())
        ]
        text = ",".join(found[:_SHOWN]) or NONE
        if len(found) > _SHOWN:
            text += f" + {len(found) - _SHOWN} more..."
        return [name_of(obj), text, age(obj, now)]


KIND: Final = Kind(
    "",
    "v1",
    "Endpoints",
    "endpoints",
    model="V1Endpoints",
    short_names=("ep",),
    strategy=EndpointsStrategy(),
)
