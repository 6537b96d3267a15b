"""The admission plugin MutatingAdmissionWebhook (mutating/dispatcher.go)."""

from typing import Any, ClassVar

from controller_manager.devcluster.admission.writes import (
    Rounds,
    in_requested,
    take_changed,
)
from controller_manager.devcluster.scheme.patches import PatchError, json_patch
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write

from .answers import Invocation, Webhooks
from .hooks import Hook
from .outcomes import Answer, internal_error, no_dry_run
from .validating import check_outcome


class MutatingAdmissionWebhook(Plugin):
    """Lets mutating webhooks change an object, one after the other.

    Each webhook sees the changes of those before. If a webhook has changed the object,
    all mutating plugins see it once more, and webhooks with the reinvocationPolicy
    IfNeeded are called again if the object has changed after them.
    """

    name: ClassVar = "MutatingAdmissionWebhook"
    mutates: ClassVar = frozenset(Operation)

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def acts(self) -> bool:
        """Tell whether there is a configuration."""
        return self._webhooks.are_configured

    def mutate(self, write: Write) -> None:
        """Change the object by all matching webhooks; raises Refusal and Pending."""
        hooks = self._webhooks.hooks(write)
        if not hooks:
            return
        rounds = Rounds.of(write, self.name)
        for hook in hooks:
            invocation = self._webhooks.invocation(hook, write)
            if invocation is None or rounds.leaves_out(hook.identity, write):
                continue
            changed = self._has_changed(invocation, write)
            policy = hook.config.get("reinvocationPolicy", "Never")
            rounds.note(hook.identity, write, changed=changed, policy=policy)
        rounds.end(write)

    def _has_changed(self, invocation: Invocation, write: Write) -> bool:
        """Apply the answer of one webhook; tell whether it has changed the object."""
        hook = invocation.hook
        if write.is_dry_run and hook.has_side_effects:
            raise no_dry_run(hook.name)
        ((_, outcome),) = self._webhooks.outcomes((invocation,), write)
        if isinstance(outcome, Answer):
            for text in outcome.warnings:
                write.warn(text)
        check_outcome(hook, outcome)
        if not isinstance(outcome, Answer) or not outcome.patch:
            return False
        return _patch(invocation, write, outcome.patch)


def _patch(invocation: Invocation, write: Write, patch: Any) -> bool:
    """Apply a patch to the object; tell whether the object changes. Raises Refusal."""
    hook, kind = invocation.hook, invocation.kind
    shown = in_requested(write, kind, write.obj)
    if shown is None:
        raise _nothing_to_change(hook)
    try:
        changed = json_patch(shown, patch)
    except PatchError as error:
        raise internal_error(str(error)) from None
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
        raise internal_error("the patch leaves no object with metadata")
    if changed == shown:
        return False
    try:
        take_changed(write, changed, kind)
    except Refusal as error:
        raise internal_error(error.message) from None
    return True


def _nothing_to_change(hook: Hook) -> Refusal:
    return internal_error(
        f'admission webhook "{hook.name}" attempted to modify the object, which is '
        "not supported for this operation"
    )
