"""The rules of a job's successPolicy (success_policy.go)."""

from controller_manager.api.batch.v1 import SuccessPolicy, SuccessPolicyRule

from .completion_indexes import IndexSet


def satisfied(
    policy: SuccessPolicy | None, succeeded: IndexSet, completions: int
) -> str | None:
    """Return the message of the first rule that is satisfied; `None` if none is.

    The indexes of a rule that are not below `completions` are left out: an elastic
    job may have been made smaller.
    """
    if policy is None or not succeeded:
        return None
    for number, rule in enumerate(policy.rules or ()):
        if _is_satisfied(rule, succeeded, completions):
            return f"Matched rules at index {number}"
    return None


def _is_satisfied(
    rule: SuccessPolicyRule, succeeded: IndexSet, completions: int
) -> bool:
    enough = rule.succeeded_count
    if rule.succeeded_indexes is None:
        return enough is not None and len(succeeded) >= enough
    required = IndexSet.parse(rule.succeeded_indexes, completions)
    if not required:
        return False
    found = succeeded.overlap(required)
    return found == len(required) or (enough is not None and found >= enough)
