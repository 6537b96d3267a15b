"""The front door for authors of controllers: each name that a controller needs.

Semantic versioning and deprecations are promised for this module and for
`controller_manager.testing`, and for nothing else. A name is imported at its first use,
with what it needs and no more. Nothing of this project imports this module.
"""

from typing import TYPE_CHECKING

from .first_use import at_first_use

if TYPE_CHECKING:
    from msgspec import Meta
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

    from controller_manager.api.apiextensions.definition import (
        Column,
        Definition,
        Scale,
        Spoke,
    )
    from controller_manager.api.apps import v1 as apps_v1
    from controller_manager.api.autoscaling import v2 as autoscaling_v2
    from controller_manager.api.batch import v1 as batch_v1
    from controller_manager.api.core import v1 as core_v1
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
    from controller_manager.cli.operator import run
    from controller_manager.client.events.recorder import NORMAL, WARNING
    from controller_manager.client.rest.client import Client
    from controller_manager.client.rest.errors import (
        AlreadyExists,
        APIError,
        Conflict,
        NotFound,
    )
    from controller_manager.informers.changes import DependsOn
    from controller_manager.informers.dispatch import Handler
    from controller_manager.informers.reads import Reads
    from controller_manager.informers.store import BY_NAMESPACE, Index, Lister
    from controller_manager.options.controller_options import ControllerOptions, option
    from controller_manager.runtime.admission import (
        AdmissionRequest,
        FieldError,
        Mutates,
        Refused,
        Validates,
    )
    from controller_manager.runtime.context import ControllerContext
    from controller_manager.runtime.descriptor import Descriptor
    from controller_manager.runtime.finalizer import Finalizer
    from controller_manager.runtime.outcome import (
        DONE,
        Done,
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
    "AdmissionRequest",
    "AlreadyExists",
    "Client",
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
    "FieldError",
    "Finalizer",
    "For",
    "Gauge",
    "Handler",
    "Handles",
    "Histogram",
    "Index",
    "Lister",
    "Maps",
    "Meta",
    "Mutates",
    "NotFound",
    "ObjectMeta",
    "Outcome",
    "OwnerReference",
    "Owns",
    "Projection",
    "Reads",
    "Reconciler",
    "Refused",
    "Requeue",
    "Resource",
    "Scale",
    "Spoke",
    "SyncError",
    "Validates",
    "allow",
    "apps_v1",
    "autoscaling_v2",
    "batch_v1",
    "core_v1",
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
]

if not TYPE_CHECKING:  # mypy must find a name that is not there
    __getattr__ = at_first_use(__name__)
