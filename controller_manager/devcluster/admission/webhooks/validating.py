"""The admission plugin ValidatingAdmissionWebhook (validating/dispatcher.go)."""

from typing import ClassVar

from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.webhook.failures import Failure

from .answers import Webhooks
from .hooks import Hook
from .outcomes import Outcome, calling_failed, denied, no_dry_run


class ValidatingAdmissionWebhook(Plugin):
    """Calls validating webhooks about an object, all at the same time.

    The refusal of the first in their order counts.
    """

    name: ClassVar = "ValidatingAdmissionWebhook"
    validates: ClassVar = frozenset(Operation)

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def validate(self, write: Write) -> None:
        """Raise Refusal if a webhook refuses; raise Pending if an answer is missing."""
        found = (
            self._webhooks.invocation(hook, write)
            for hook in self._webhooks.hooks(write)
        )
        invocations = [each for each in found if each is not None]
        if write.is_dry_run:
            for each in invocations:
                if each.hook.has_side_effects:
                    raise no_dry_run(each.hook.name)
        if not invocations:
            return
        outcomes = self._webhooks.outcomes(invocations, write)
        for _, outcome in outcomes:
            for text in () if isinstance(outcome, Failure) else outcome.warnings:
                write.warn(text)
        for hook, outcome in outcomes:
            check_outcome(hook, outcome)


def check_outcome(hook: Hook, outcome: Outcome) -> None:
    """Raise Refusal if a webhook refuses, or fails with failurePolicy Fail."""
    if isinstance(outcome, Failure):
        if not hook.ignores_failures:
            raise calling_failed(hook.name, outcome)
    elif not outcome.allowed:
        raise denied(hook.name, outcome.status)
