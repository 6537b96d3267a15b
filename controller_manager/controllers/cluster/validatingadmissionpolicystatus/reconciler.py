"""Applies the status of policies (validatingadmissionpolicystatus/controller.go)."""

from typing import Final

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_ADMISSION_POLICIES,
    ValidatingAdmissionPolicy,
)
from controller_manager.api.meta import key_of
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

from . import options, schemas, type_checking

FIELD_MANAGER: Final = "validatingadmissionpolicy-status-controller"
"""The manager of the status, in managedFields; upstream's."""

_ATTEMPTS: Final = 10
"""The number of attempts before a kind without a schema is left out.

The schema of a new custom resource comes after the resource. By default these attempts
take five seconds.
"""


class PolicyStatusReconciler(Reconciler[ValidatingAdmissionPolicy]):
    """Writes the checked generation of a policy, and the warnings about it.

    The status is written with server-side apply, as in upstream. So each of two
    managers removes the warnings of the other.
    """

    watches = (For(VALIDATING_ADMISSION_POLICIES),)
    queue_name = "validatingadmissionpolicy-status"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        config = context.config.of(options.PolicyStatusOptions)
        self.workers = config.concurrent_syncs

    async def reconcile(self, policy: ValidatingAdmissionPolicy) -> Outcome:
        """Check a policy whose spec has changed since it was checked last."""
        metadata = policy.metadata
        if metadata.generation <= policy.status.observed_generation:
            return DONE
        found = await schemas.read_kinds(self.client, self.context.resources, policy)
        if found.lacking and self.queue.failures(key_of(policy)) < _ATTEMPTS:
            listed = ", ".join(map(str, found.lacking))
            msg = f"the API server has no schema yet of: {listed}"
            raise SyncError(msg)
        warnings = list(type_checking.warnings_of(policy.spec, found.kinds))
        status = {
            "observedGeneration": metadata.generation,
            "typeChecking": {"expressionWarnings": warnings} if warnings else {},
        }
        # The uid is a precondition: a later policy may have the same name.
        config = {"metadata": {"uid": metadata.uid}, "status": status}
        await self.client.apply(
            VALIDATING_ADMISSION_POLICIES,
            metadata.name,
            config,
            FIELD_MANAGER,
            "status",
        )
        return DONE
