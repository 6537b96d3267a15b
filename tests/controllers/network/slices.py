"""The writes of endpoint slices that a simulation allows."""

from typing import Final

from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite

SLICES: Final = "endpointslices"

WRITES_OF_SLICES: Final = (
    AllowedWrite(("create", "delete"), SLICES),
    AllowedWrite(
        ("update",),
        SLICES,
        only(
            ("metadata", "labels"),
            ("metadata", "annotations"),
            ("endpoints",),
            ("ports",),
        ),
    ),
)
