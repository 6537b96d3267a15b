"""Explains objects that a controller may not create: quota, admission, accounts."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.resources import RESOURCE_QUOTAS, ResourceQuota
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import object_at
from controller_manager.api.quantity import ZERO, QuantityError, parse_quantity
from controller_manager.control.quota.evaluators import pod_evaluator
from controller_manager.control.quota.resources import NOTHING, Amounts, added
from controller_manager.control.quota.scopes import requirements_of

from .cause import Cause, Item, Reference, State, symptom, text_at
from .view import Event, View, events_of

_EXCEEDED: Final = re.compile(
    r"exceeded quota: ([^,]+), requested: (.+), used: (.+), limited: (.+)"
)
_FAILED_QUOTA: Final = re.compile(r"failed quota: ([^:]+): (must specify .+)")
_PAIR: Final = re.compile(r"([^=,\s]+)=([^,\s]+)")
_PREFIX: Final = re.compile(
    r'^(?:[^:]*: )?\S+(?: "[^"]*")? is forbidden: |^Error creating: '
)
_REFUSED_CLAIM: Final = re.compile(r'persistentvolumeclaims "[^"]*" is forbidden')
_CHARGES: Final = pod_evaluator(pod_level=True)
_FAILURE: Final = "ReplicaFailure"
_FAILED: Final = "FailedCreate"
_REASONS: Final = (_FAILED, "SuccessfulCreate")
_NOUNS: Final = {"CronJob": "job", "Deployment": "replica set"}
"""The objects that an owner creates, if they are not pods."""


class _Rule(Struct, frozen=True):
    """A refusal that one of some words in its message shows."""

    words: tuple[str, ...]
    code: str
    remedy: str


_RULES: Final = (
    _Rule(
        ("cannot create resource",),
        "CreationRefused",
        "give this user the right to create them: see that the role of its controller "
        "exists, and is bound",
    ),
    _Rule(
        ("violates PodSecurity",),
        "PodSecurity",
        "give the pod the security context that the namespace demands, or relax the "
        "label pod-security.kubernetes.io/enforce of the namespace",
    ),
    _Rule(
        ("failed calling webhook",),
        "WebhookFailed",
        "repair the server of the webhook, or set its failurePolicy to Ignore",
    ),
    _Rule(
        ("admission webhook",),
        "WebhookDenied",
        "change the pod template as the webhook demands",
    ),
    _Rule(
        ("ValidatingAdmissionPolicy",),
        "PolicyDenied",
        "change the pod template as the policy demands",
    ),
    _Rule(
        ('serviceaccount "', "service account"),
        "ServiceAccountMissing",
        "create the service account, or correct serviceAccountName",
    ),
    _Rule(
        ("PriorityClass",),
        "PriorityClassMissing",
        "create the priority class, or correct priorityClassName",
    ),
    _Rule(
        ("because it is being terminated",),
        "NamespaceTerminating",
        "wait for the end of the namespace: controller-manager explain ns/NAME",
    ),
    _Rule(
        ("usage per", "max limit to request ratio per"),
        "LimitRange",
        "change the requests and limits, or the LimitRange of the namespace",
    ),
)


async def explain_refusal(view: View, owner: Item, missing: int) -> Cause | None:
    """Return the cause for which the pods of an owner are refused, `None` for none.

    `missing` is the number of pods that do not exist.

    The condition ReplicaFailure has the last refusal, if the owner's kind has it; else
    the newest event FailedCreate does.
    """
    refusal = await _last_refusal(view, owner)
    return await refused(view, owner, refusal, missing) if refusal else None


async def refused(view: View, owner: Item, refusal: Event, missing: int) -> Cause:
    """Return the cause of a refusal: its event has the message of the API server."""
    message = refusal.message
    noun = _NOUNS.get(owner.resource.kind, "pod")
    verb = "is" if missing == 1 else "are"
    number = "a" if missing == 1 else missing
    start = f"{number} {noun if missing == 1 else f'{noun}s'} {verb} missing"
    is_claim = _REFUSED_CLAIM.search(message) is not None
    start += f": the API server refuses {'new claims' if is_claim else 'new ones'}"
    if found := _EXCEEDED.search(message):
        needing = "claim" if is_claim else noun
        return await _exceeded(view, owner, refusal, found, start, needing)
    if found := _FAILED_QUOTA.search(message):
        return _unspecified(owner, refusal, found, start)
    rules = (each for each in _RULES if any(word in message for word in each.words))
    rule = next(rules, None)
    return owner.cause(
        rule.code if rule else "CreationRefused",
        f"{start}: {_PREFIX.sub('', message, count=1)}",
        refusal.field,
        refusal.at,
        remedy=rule.remedy if rule else "change the pod template as the message says",
    )


def names_quota(message: str) -> str:
    """Return the name of the quota that a refusal says is exceeded, empty for none."""
    found = _EXCEEDED.search(message)
    return found[1] if found else ""


async def explain_missing(
    view: View, owner: Item, missing: int, what: str, field: str
) -> Cause:
    """Return the cause for which pods of an owner do not exist.

    `what` and `field` describe pods that are not refused.
    """
    refusal = await explain_refusal(view, owner, missing)
    return refusal or owner.cause("PodsMissing", what, field, state=State.PROGRESSING)


async def _last_refusal(view: View, owner: Item) -> Event | None:
    condition = owner.condition(_FAILURE)
    if condition is not None and condition.get("status") == "True":
        message = " ".join(text_at(condition, "message").split())
        since = text_at(condition, "lastTransitionTime")
        where = f"status.conditions[{_FAILURE}]"
        return Event(_FAILED, message.rstrip("."), since, where)
    found = await events_of(view, owner, _REASONS)
    if not found:
        return None
    # Of two events of one second, the refusal is the last: it ends the creations.
    last = max(found, key=lambda each: (each.at, each.reason == _FAILED))
    if last.reason != _FAILED:
        return None
    return Event(last.reason, last.message.rstrip("."), last.at, "event FailedCreate")


async def _exceeded(
    view: View,
    owner: Item,
    refusal: Event,
    found: re.Match[str],
    start: str,
    noun: str,
) -> Cause:
    """Return the cause for objects that a quota has no room for."""
    quota = await _full_quota(view, owner.namespace, found, noun)
    exceeded = owner.cause(
        "QuotaExceeded",
        f"{start}, because they exceed a quota",
        refusal.field,
        refusal.at,
        state=quota.state,
    )
    return symptom(exceeded, [quota])


async def _full_quota(
    view: View, namespace: str, found: re.Match[str], noun: str
) -> Cause:
    """Return the cause that the quota is.

    A quota that has room by now, or is gone, shows that the controller has not tried
    again yet. One that has room once pods have ended is full for a moment only, as in
    a rollout.
    """
    name = found[1]
    requested, used, limited = map(_amounts, found.group(2, 3, 4))
    quota = await view.find(RESOURCE_QUOTAS, namespace, name)
    if quota is not None:
        used |= object_at(quota.status, "used")
        limited |= object_at(quota.status, "hard")
    is_gone = await view.is_missing(RESOURCE_QUOTAS, namespace, name)
    lacking = [] if is_gone else _lacking(requested, used, limited)
    first = (lacking or list(requested))[0]
    what = (
        f"the quota has {first}: {limited.get(first, 'none')}, "
        f"{used.get(first, '0')} of it in use, and a {noun} needs {requested[first]}"
    )
    code, remedy = "QuotaHasRoom", "wait: the controller tries again"
    if is_gone:
        what = "the quota does not exist any more"
    elif lacking and not _lacking(requested, used, limited, await _freed(view, quota)):
        what += "; pods that are ending free enough of it"
    elif lacking:
        code = "QuotaFull"
        remedy = f"raise the quota, or delete {noun}s that count against it"
    return Cause(
        code=code,
        state=State.STUCK if code == "QuotaFull" else State.PROGRESSING,
        what=what,
        object=Reference("v1", "ResourceQuota", namespace, name),
        field=f"status.used[{first}]",
        remedy=remedy,
    )


def _lacking(
    requested: Mapping[str, str],
    used: Mapping[str, str],
    limited: Mapping[str, str],
    freed: Amounts = NOTHING,
) -> Sequence[str]:
    """Return the resources of which a quota has no room for a request.

    `freed` is no longer in use then.
    """

    def exceeds(name: str) -> bool:
        try:
            wanted = parse_quantity(requested[name])
            wanted += parse_quantity(used.get(name, "0")) - freed.get(name, ZERO)
            return name not in limited or wanted > parse_quantity(limited[name])
        except QuantityError:
            return True

    return [each for each in requested if exceeds(each)]


async def _freed(view: View, quota: Item | None) -> Amounts:
    """Return what a quota counts for the pods that end within their grace period."""
    if quota is None:
        return NOTHING
    requirements = requirements_of(quota.typed(ResourceQuota).spec)
    freed = NOTHING
    for each in await view.list(PODS, quota.namespace):
        pod = each.typed(Pod)
        if each.deleted_at and all(_CHARGES.meets(one, pod) for one in requirements):
            freed = added(freed, _CHARGES.usage(pod, view.now))
    return freed


def _unspecified(
    owner: Item, refusal: Event, found: re.Match[str], start: str
) -> Cause:
    return owner.cause(
        "QuotaNeedsAmounts",
        f"{start}: the quota {found[1]} demands that they {found[2]}",
        refusal.field,
        refusal.at,
        remedy="set these requests and limits, or defaults by a LimitRange",
    )


def _amounts(text: str) -> dict[str, str]:
    """Return the amounts in ``pods=1,requests.cpu=500m``."""
    return dict(_PAIR.findall(text))
