"""The table: each kind of objects, and what users do with them."""

from typing import Final

from . import cluster, identity, network, nodes, storage, workloads
from .row import Row

TABLE: Final[dict[str, Row]] = {
    each.name: each
    for area in (workloads, nodes, storage, network, identity, cluster)
    for each in area.ROWS
}
"""All rows by their names."""
