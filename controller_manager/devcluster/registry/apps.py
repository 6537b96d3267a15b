"""The kinds of the group apps (pkg/apis/apps, pkg/registry/apps, pkg/printers)."""

from collections.abc import Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import NONE, Strategy
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.pods import always_restarts
from controller_manager.devcluster.validation.rules import Rule, nested
from controller_manager.devcluster.validation.text import table
from controller_manager.devcluster.validation.values import percent
from controller_manager.options.gates import Gate

from .core import templates, volumes
from .kinds import kind_of

# Rules and defaults of several kinds


def _selects_all(spec: JSON, _: JSON) -> bool:
    selector = spec.get("selector")
    return selector is not None and not any(selector.values())


def _is_above_all(rolling: JSON, _: JSON) -> bool:
    """Tell whether more than all pods may be unavailable."""
    return percent(rolling.get("maxUnavailable")) > 100


def _pods_of(owner: str, kind: str) -> Rule:
    """Return the rules for a spec with a selector and the template of its pods.

    `owner` and `kind` are the kinds of the object in upstream's messages.
    """
    text = f"""
        selector: required pointer
        selector: invalid if selects_all "empty selector is invalid for {owner}"
        selector: selector
        hook templates.template_labels
        include POD_TEMPLATE ALWAYS_RESTARTS
        """
    return table(text, {**globals(), "ALWAYS_RESTARTS": always_restarts(kind)})


_PODS: Final = _pods_of("deployment", "ReplicaSet")
"""Those of a deployment and a replica set; upstream does not tell them apart."""

_STATEFUL_PODS: Final = _pods_of("statefulset", "StatefulSet")
_WORKLOAD: Final = table("""
    replicas, minReadySeconds: not-negative
    include PODS
    """)
_SELECTOR_UPDATE: Final = table("spec change:\n  selector: immutable")


def _collisions(status: JSON, path: str, old: JSON) -> Iterator[statuses.Cause]:
    after = status.get("collisionCount", 0)
    if after < old.get("collisionCount", 0):
        detail = "cannot be decremented"
        yield statuses.invalid(f"{path}collisionCount", statuses.shown(after), detail)


_STATUS_UPDATE: Final = table("status change:\n  hook collisions")


def _as_go_prints(strategy: JSON) -> str:
    """Return the strategy of an update with the names of Go's internal type."""
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    return statuses.shown({"Type": kind, "RollingUpdate": rolling})


def _default_strategy(spec: JSON, name: str, **limits: int | str) -> None:
    strategy = spec.setdefault(name, {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**limits, **strategy.get("rollingUpdate", {})}


def _ready(obj: JSON) -> str:
    ready = obj.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{obj['spec'].get('replicas', 0)}"


# ControllerRevision: one revision of a template, for rollbacks


def _controller(obj: JSON) -> str:
    """Return ``kind.group/name`` of the controller."""
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner["apiVersion"].rpartition("/")[0]
            kind = ".".join(filter(None, (owner["kind"].lower(), group)))
            return f"{kind}/{owner['name']}"
    return NONE


CONTROLLER_REVISIONS: Final = kind_of(
    "apps/v1/controllerrevisions",
    rules="""
        data: required pointer "data is mandatory"
        revision: not-negative
        """,
    update_rules="data: immutable",
    printer="Name; Controller: controller; Revision integer: .revision; Age",
)

# DaemonSet: a pod on every node. An annotation counts the changes of its template; the
# field of the API that it stands for is no longer shown (apis/apps/v1/conversion.go).

_GENERATION: Final = "deprecated.daemonset.template.generation"


def _is_zero(value: Any) -> bool:
    return not (percent(value) if isinstance(value, str) else value)


def _daemon_set_type(strategy: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    known = ("RollingUpdate", "OnDelete")
    yield statuses.not_supported(path[:-1], _as_go_prints(strategy), known)


def _rolling_update(rolling: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    """Check that pods are either removed first or added first."""
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    for name, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        if percent(value) > 100:
            detail = "must not be greater than 100%"
            yield statuses.invalid(f"{path}{name}", statuses.shown(value), detail)
    if _is_zero(unavailable) and _is_zero(surge):
        detail = "cannot be 0 when maxSurge is 0"
        yield statuses.required(f"{path}maxUnavailable", detail)
    elif not _is_zero(unavailable) and not _is_zero(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        yield statuses.invalid(f"{path}maxSurge", statuses.shown(surge), detail)


def _generation(obj: JSON) -> int:
    """Return the count of the template's changes; raises Refusal for other text."""
    text = obj["metadata"].get("annotations", {}).get(_GENERATION, "0")
    try:
        return int(text)
    except ValueError:
        why = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise statuses.bad_request(why) from None


def _set_generation(obj: JSON, count: int) -> None:
    obj["metadata"].setdefault("annotations", {})[_GENERATION] = str(count)


_ALWAYS_RESTARTS: Final = always_restarts("DaemonSet")


def _default_daemon_set(obj: JSON) -> None:
    obj.setdefault("spec", {}).setdefault("revisionHistoryLimit", 10)
    _default_strategy(obj["spec"], "updateStrategy", maxUnavailable=1, maxSurge=0)
    templates.default_template(obj["spec"])


def _start_generation(obj: JSON, _: Storage) -> None:
    _set_generation(obj, max(_generation(obj), 1))


def _count_generation(old: JSON, new: JSON) -> None:
    _default_daemon_set(new)
    changed = old["spec"]["template"] != new["spec"]["template"]
    _set_generation(new, _generation(old) + changed)


def _keep_generation(old: JSON, new: JSON) -> None:
    _set_generation(new, _generation(old))


DAEMON_SETS: Final = kind_of(
    "apps/v1/daemonsets",
    apply_defaults=_default_daemon_set,
    prepare_for_create=_start_generation,
    prepare_for_update=_count_generation,
    prepare_for_status_update=_keep_generation,
    counts_generations=True,
    rules="""
        spec:
          selector: selector
          hook templates.template_labels
          selector: invalid if selects_all
            "empty selector is invalid for daemonset"
          include POD_TEMPLATE ALWAYS_RESTARTS
          minReadySeconds: not-negative
          updateStrategy:
            when type is RollingUpdate:
              rollingUpdate always:
                maxUnavailable, maxSurge: int-or-percent default 0
                hook rolling_update
            when type is-not RollingUpdate OnDelete:
              hook daemon_set_type
          revisionHistoryLimit: not-negative
        """,
    update_rules=_SELECTOR_UPDATE,
    status_rules="""
        status:
          currentNumberScheduled, numberMisscheduled: not-negative
          desiredNumberScheduled, numberReady, observedGeneration: not-negative
          updatedNumberScheduled, numberAvailable: not-negative
          numberUnavailable, collisionCount: not-negative
        """,
    status_update_rules=_STATUS_UPDATE,
    printer=f"""
        Name
        Desired integer: .status.desiredNumberScheduled
        Current integer: .status.currentNumberScheduled
        Ready integer: .status.numberReady
        Up-to-date integer: .status.updatedNumberScheduled
        Available integer: .status.numberAvailable
        Node Selector: labels .spec.template.spec.nodeSelector or <none>
        Age
        {templates.CONTAINERS}
        Selector wide: selector .spec.selector or <none>
        """,
)

# Deployment: rolls out a pod template


def _deployment_type(strategy: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    known = ("Recreate", "RollingUpdate")
    yield statuses.not_supported(path[:-1], _as_go_prints(strategy), known)


def _stands_still(rolling: JSON, _: JSON) -> bool:
    limits = (rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge"))
    return all(each in (0, "0%") for each in limits)


def _default_deployment(obj: JSON) -> None:
    templates.default_replicas(obj)
    spec = obj["spec"]
    _default_strategy(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


DEPLOYMENTS: Final = kind_of(
    "apps/v1/deployments",
    counted_metadata="annotations",
    apply_defaults=_default_deployment,
    counts_generations=True,
    kept_by_status=("labels",),
    rules="""
        spec:
          include WORKLOAD
          strategy:
            when type is Recreate:
              rollingUpdate: forbidden
                "may not be specified when strategy `type` is 'Recreate'"
            when type is RollingUpdate:
              rollingUpdate always:
                maxUnavailable, maxSurge: int-or-percent default 0
                maxUnavailable: invalid default 0 if stands_still
                  "may not be 0 when `maxSurge` is 0"
                maxUnavailable: invalid if is_above_all
                  "must not be greater than 100%"
            when type is-not Recreate RollingUpdate:
              hook deployment_type
          revisionHistoryLimit, progressDeadlineSeconds: not-negative
          progressDeadlineSeconds: invalid if has progressDeadlineSeconds
            and progressDeadlineSeconds not-above minReadySeconds
            "must be greater than minReadySeconds"
        """,
    update_rules=_SELECTOR_UPDATE,
    status_rules=templates.replica_status(
        "replicas, updatedReplicas, readyReplicas, availableReplicas, "
        "unavailableReplicas, terminatingReplicas",
        "updatedReplicas, readyReplicas, availableReplicas",
    ),
    printer=f"""
        Name
        Ready: ready
        Up-to-date: .status.updatedReplicas or 0
        Available: .status.availableReplicas or 0
        Age
        {templates.CONTAINERS}
        Selector wide: selector .spec.selector or <none>
        """,
)

# ReplicaSet: keeps a number of equal pods running

REPLICA_SETS: Final = kind_of(
    "apps/v1/replicasets",
    apply_defaults=templates.default_replicas,
    counts_generations=True,
    selectable_fields="status.replicas",
    rules=nested("spec", [_WORKLOAD]),
    update_rules=_SELECTOR_UPDATE,
    status_rules=templates.replica_status(
        "replicas, fullyLabeledReplicas, readyReplicas, availableReplicas, "
        "observedGeneration, terminatingReplicas",
        "fullyLabeledReplicas, readyReplicas, availableReplicas",
    ),
    printer=f"{templates.REPLICAS}\nSelector wide: selector .spec.selector or <none>",
)

# StatefulSet: pods with names and volumes of their own

_MUTABLE: Final = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


def _stateful_set_type(strategy: JSON, path: str, _: JSON) -> Iterator[statuses.Cause]:
    why = "must be 'RollingUpdate' or 'OnDelete'"
    yield statuses.invalid(path[:-1], _as_go_prints(strategy), why)


def _none_unavailable(rolling: JSON, _: JSON) -> bool:
    value = rolling.get("maxUnavailable")
    return value == 0 or (isinstance(value, str) and not percent(value))


def _changed(spec: JSON, old: JSON) -> bool:
    """Tell whether a field changes that is not mutable."""
    names = (spec.keys() | old.keys()).difference(_MUTABLE)
    return any(spec.get(name) != old.get(name) for name in names)


class _StatefulSetStrategy(Strategy):
    """The facts drop the limit of unavailable pods while its gate is off."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas, template, claims, policies and update strategy."""
        super().apply_defaults(obj)
        spec = obj["spec"]
        limits = {} if self.dropped else {"maxUnavailable": 1}
        _default_strategy(spec, "updateStrategy", partition=0, **limits)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
        templates.default_template(spec)
        for claim in spec.get("volumeClaimTemplates", ()):
            claim.update({"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
            volumes.default_claim(claim)


STATEFUL_SETS: Final = kind_of(
    "apps/v1/statefulsets",
    _StatefulSetStrategy(),
    check_name=validate_label,  # the name is part of the host names of pods
    counts_generations=True,
    defaults={
        "spec": {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "revisionHistoryLimit": 10,
            "ordinals": {"start": 0},
        }
    },
    dropped=("spec.updateStrategy.rollingUpdate.maxUnavailable",),
    rules="""
        spec:
          podManagementPolicy: required
          podManagementPolicy: invalid
            if podManagementPolicy is-not OrderedReady Parallel null empty
            "must be 'OrderedReady' or 'Parallel'"
          updateStrategy:
            when type is OnDelete:
              rollingUpdate: refused "only allowed for updateStrategy 'RollingUpdate'"
            when type is RollingUpdate:
              rollingUpdate:
                partition: not-negative
                maxUnavailable: int-or-percent pointer
                maxUnavailable: invalid if none_unavailable "cannot be 0"
                maxUnavailable: invalid if is_above_all "must not be greater than 100%"
            when type is-not OnDelete RollingUpdate:
              hook stateful_set_type
          persistentVolumeClaimRetentionPolicy:
            whenDeleted, whenScaled: enum Retain Delete default empty
          replicas, minReadySeconds: not-negative
          ordinals:
            start: not-negative
          revisionHistoryLimit: not-negative
          serviceName: label
          include STATEFUL_PODS
        """,
    # The templates of claims do not change later.
    new_rules="""
        spec:
          volumeClaimTemplates[]:
            spec:
              include volumes.CLAIM_SPEC
        """,
    update_rules="""
        spec change:
          when changed:
            self: forbidden
              "updates to statefulset spec for fields other than 'replicas',"
              "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit',"
              "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are"
              "forbidden"
        """,
    status_rules=templates.replica_status(
        "replicas, readyReplicas, currentReplicas, updatedReplicas, availableReplicas, "
        "observedGeneration, collisionCount",
        "readyReplicas, currentReplicas, updatedReplicas, availableReplicas",
        "status.readyReplicas",
    ),
    status_update_rules=_STATUS_UPDATE,
    printer=f"Name; Ready: ready; Age\n{templates.CONTAINERS}",
    gated={Gate("MaxUnavailableStatefulSet", default=False): {"dropped": ()}},
)
