"""Stores the flow schemas and priority levels when the API server starts."""

from controller_manager.devcluster.apiserver.objects import Objects

from .bootstrap_flows import FLOW_SCHEMAS, PRIORITY_LEVELS
from .flowschema import KIND as SCHEMAS
from .flowschema import add_flow_schema
from .prioritylevelconfiguration import KIND as LEVELS
from .prioritylevelconfiguration import add_priority_level


def add_bootstrap_flows(objects: Objects) -> None:
    """Store the mandatory and the suggested objects of upstream that are missing."""
    for name in PRIORITY_LEVELS:
        if not objects.has(LEVELS, "", name):
            add_priority_level(objects, name)
    for name in FLOW_SCHEMAS:
        if not objects.has(SCHEMAS, "", name):
            add_flow_schema(objects, name)
