"""The front door for authors of controllers: each name that a controller needs.

Semantic versioning and deprecations are promised for this module and for
`controller_manager.testing`, and for nothing else. A name is imported at its first use,
with what it needs and no more. Nothing of this project imports this module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from msgspec import Meta
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

    from controller_manager.api.apiextensions import v1 as apiextensions_v1
    from controller_manager.api.apiextensions.definition import (
        Column,
        Definition,
        Scale,
    )
    from controller_manager.api.apps import v1 as apps_v1
    from controller_manager.api.autoscaling import v2 as autoscaling_v2
    from controller_manager.api.batch import v1 as batch_v1
    from controller_manager.api.coordination import v1 as coordination_v1
    from controller_manager.api.core import v1 as core_v1
    from controller_manager.api.discovery import v1 as discovery_v1
    from controller_manager.api.meta import (
        APIStruct,
        CompleteObject,
        Condition,
        ObjectMeta,
        OwnerReference,
        Projection,
        Resource,
        is_deleting,
        key_of,
        labels_of,
        owned_by,
        set_condition,
    )
    from controller_manager.api.networking import v1 as networking_v1
    from controller_manager.api.policy import v1 as policy_v1
    from controller_manager.api.rbac import v1 as rbac_v1
    from controller_manager.api.storage import v1 as storage_v1
    from controller_manager.cli.operator import run
    from controller_manager.client.events.recorder import NORMAL, WARNING, EventRecorder
    from controller_manager.client.rest.client import Client, PatchType
    from controller_manager.client.rest.errors import (
        AlreadyExists,
        APIError,
        Conflict,
        NotFound,
    )
    from controller_manager.clock import Clock
    from controller_manager.informers.changes import DependsOn
    from controller_manager.informers.dispatch import Handler
    from controller_manager.informers.reads import Reads
    from controller_manager.informers.store import BY_NAMESPACE, Index, Lister
    from controller_manager.options.controller_options import ControllerOptions, option
    from controller_manager.options.flag import Flag
    from controller_manager.runtime.context import ControllerContext
    from controller_manager.runtime.descriptor import Descriptor
    from controller_manager.runtime.finalizer import Finalizer
    from controller_manager.runtime.outcome import (
        DONE,
        Done,
        Failed,
        Outcome,
        Requeue,
        SyncError,
    )
    from controller_manager.runtime.permissions import RECORD_EVENTS, allow
    from controller_manager.runtime.reconciler import Reconciler
    from controller_manager.runtime.watches import For, Handles, Maps, Owns

__all__ = [
    "BY_NAMESPACE",
    "DONE",
    "NORMAL",
    "RECORD_EVENTS",
    "WARNING",
    "APIError",
    "APIStruct",
    "AlreadyExists",
    "Client",
    "Clock",
    "CollectorRegistry",
    "Column",
    "CompleteObject",
    "Condition",
    "Conflict",
    "ControllerContext",
    "ControllerOptions",
    "Counter",
    "Definition",
    "DependsOn",
    "Descriptor",
    "Done",
    "EventRecorder",
    "Failed",
    "Finalizer",
    "Flag",
    "For",
    "Gauge",
    "Handler",
    "Handles",
    "Histogram",
    "Index",
    "Lister",
    "Maps",
    "Meta",
    "NotFound",
    "ObjectMeta",
    "Outcome",
    "OwnerReference",
    "Owns",
    "PatchType",
    "Projection",
    "Reads",
    "Reconciler",
    "Requeue",
    "Resource",
    "Scale",
    "SyncError",
    "allow",
    "apiextensions_v1",
    "apps_v1",
    "autoscaling_v2",
    "batch_v1",
    "coordination_v1",
    "core_v1",
    "discovery_v1",
    "is_deleting",
    "key_of",
    "labels_of",
    "networking_v1",
    "option",
    "owned_by",
    "policy_v1",
    "rbac_v1",
    "run",
    "set_condition",
    "storage_v1",
]

_MODULES: Final = {
    "APIError": "controller_manager.client.rest.errors",
    "APIStruct": "controller_manager.api.meta",
    "AlreadyExists": "controller_manager.client.rest.errors",
    "BY_NAMESPACE": "controller_manager.informers.store",
    "Client": "controller_manager.client.rest.client",
    "Clock": "controller_manager.clock",
    "Column": "controller_manager.api.apiextensions.definition",
    "CompleteObject": "controller_manager.api.meta",
    "Condition": "controller_manager.api.meta",
    "Conflict": "controller_manager.client.rest.errors",
    "ControllerContext": "controller_manager.runtime.context",
    "ControllerOptions": "controller_manager.options.controller_options",
    "DONE": "controller_manager.runtime.outcome",
    "Definition": "controller_manager.api.apiextensions.definition",
    "DependsOn": "controller_manager.informers.changes",
    "Descriptor": "controller_manager.runtime.descriptor",
    "Done": "controller_manager.runtime.outcome",
    "EventRecorder": "controller_manager.client.events.recorder",
    "Failed": "controller_manager.runtime.outcome",
    "Finalizer": "controller_manager.runtime.finalizer",
    "Flag": "controller_manager.options.flag",
    "For": "controller_manager.runtime.watches",
    "Handler": "controller_manager.informers.dispatch",
    "Handles": "controller_manager.runtime.watches",
    "Index": "controller_manager.informers.store",
    "Lister": "controller_manager.informers.store",
    "Maps": "controller_manager.runtime.watches",
    "NORMAL": "controller_manager.client.events.recorder",
    "NotFound": "controller_manager.client.rest.errors",
    "ObjectMeta": "controller_manager.api.meta",
    "Outcome": "controller_manager.runtime.outcome",
    "OwnerReference": "controller_manager.api.meta",
    "Owns": "controller_manager.runtime.watches",
    "PatchType": "controller_manager.client.rest.client",
    "Projection": "controller_manager.api.meta",
    "RECORD_EVENTS": "controller_manager.runtime.permissions",
    "Reads": "controller_manager.informers.reads",
    "Reconciler": "controller_manager.runtime.reconciler",
    "Requeue": "controller_manager.runtime.outcome",
    "Resource": "controller_manager.api.meta",
    "Scale": "controller_manager.api.apiextensions.definition",
    "SyncError": "controller_manager.runtime.outcome",
    "WARNING": "controller_manager.client.events.recorder",
    "allow": "controller_manager.runtime.permissions",
    "is_deleting": "controller_manager.api.meta",
    "key_of": "controller_manager.api.meta",
    "labels_of": "controller_manager.api.meta",
    "option": "controller_manager.options.controller_options",
    "owned_by": "controller_manager.api.meta",
    "run": "controller_manager.cli.operator",
    "set_condition": "controller_manager.api.meta",
    "CollectorRegistry": "prometheus_client",
    "Counter": "prometheus_client",
    "Gauge": "prometheus_client",
    "Histogram": "prometheus_client",
    "Meta": "msgspec",
}
"""The module of each name."""

_GROUP_VERSIONS: Final = {
    "apiextensions_v1": "controller_manager.api.apiextensions.v1",
    "apps_v1": "controller_manager.api.apps.v1",
    "autoscaling_v2": "controller_manager.api.autoscaling.v2",
    "batch_v1": "controller_manager.api.batch.v1",
    "coordination_v1": "controller_manager.api.coordination.v1",
    "core_v1": "controller_manager.api.core.v1",
    "discovery_v1": "controller_manager.api.discovery.v1",
    "networking_v1": "controller_manager.api.networking.v1",
    "policy_v1": "controller_manager.api.policy.v1",
    "rbac_v1": "controller_manager.api.rbac.v1",
    "storage_v1": "controller_manager.api.storage.v1",
}
"""The modules with the types and resources of a group version."""

if not TYPE_CHECKING:  # mypy must find a name that is not there

    def __getattr__(name: str) -> object:
        """Import an exported name at its first use."""
        if name in _GROUP_VERSIONS:
            found = import_module(_GROUP_VERSIONS[name])
        elif name in _MODULES:
            found = getattr(import_module(_MODULES[name]), name)
        else:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        globals()[name] = found
        return found
