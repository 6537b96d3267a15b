"""The rules for the specs of jobs, and for their changes (batch/validation)."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.statuses import Cause, shown
from controller_manager.devcluster.validation.field_values import NOT_NEGATIVE
from controller_manager.devcluster.validation.pods import POD_TEMPLATE
from controller_manager.devcluster.validation.text import table

from .index_intervals import parse_indexes, total

_MANY: Final = 100_000
_LONGEST_INDEXES: Final = 64 * 1024
_MOST_VALUES: Final = 255
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates", "affinity")


# Failure policy


def _names_no_container(exit_codes: JSON, spec: JSON) -> bool:
    pod, name = spec["template"]["spec"], exit_codes.get("containerName")
    containers = (*pod.get("containers", ()), *pod.get("initContainers", ()))
    return name is not None and all(name != each.get("name") for each in containers)


def _exit_values(exit_codes: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that exit codes are ordered and unique, and that success is no failure."""
    values, where = exit_codes.get("values", []), f"{path}values"
    if not values:
        yield statuses.invalid(where, "null", "at least one value is required")
    elif len(values) > _MOST_VALUES:
        yield statuses.too_many(where, len(values), _MOST_VALUES)
    for number, value in enumerate(values):
        if exit_codes.get("operator") == "In" and value == 0:
            why = "must not be 0 for the In operator"
            yield statuses.invalid(f"{where}[{number}]", shown(value), why)
        if value in values[:number]:
            yield statuses.duplicate(f"{where}[{number}]", shown(value))
    if any(before > after for before, after in pairwise(values)):
        yield statuses.invalid(where, shown(values), "must be ordered")


# Success policy


def _success_rule(rule: JSON, path: str, spec: JSON) -> Iterator[Cause]:
    """Compare the count of a rule with its indexes and with the completions."""
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    completions, number = spec.get("completions", 0), 0
    if count is None and indexes is None:
        why = "at least one of succeededCount or succeededIndexes must be specified"
        yield statuses.required(path[:-1], why)
    if indexes is not None:
        where = f"{path}succeededIndexes"
        if len(indexes) > _LONGEST_INDEXES:
            yield statuses.too_long(where, _LONGEST_INDEXES)
        try:
            number = total(parse_indexes(indexes, completions))
        except ValueError as error:
            why = f"error parsing succeededIndexes: {error}"
            yield statuses.invalid(where, shown(indexes), why)
    if count is None:
        return
    where = f"{path}succeededCount"
    if count < 0:
        yield statuses.invalid(where, shown(count), NOT_NEGATIVE)
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        what = "the number of indexes in the specified succeededIndexes field"
        limits.append((number, what))
    for most, what in limits:
        if count > most:
            why = f"must be less than or equal to {most} ({what})"
            yield statuses.invalid(where, shown(count), why)


# Spec


def _fails_too_often(spec: JSON, _: JSON) -> bool:
    failed, completions = spec.get("maxFailedIndexes"), spec.get("completions")
    return failed is not None and completions is not None and failed > completions


def _has_many(spec: JSON, _: JSON) -> bool:
    return spec.get("completions", 0) > _MANY and "backoffLimitPerIndex" in spec


def _restart_policy(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    policy = spec["template"]["spec"].get("restartPolicy", "Always")
    where = f"{path}template.spec.restartPolicy"
    if policy == "Always":
        yield statuses.required(where, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield statuses.not_supported(where, shown(policy), ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield statuses.invalid(where, shown(policy), why)


JOB_SPEC: Final = table(
    """
    parallelism, completions, activeDeadlineSeconds, backoffLimit: not-negative
    ttlSecondsAfterFinished, backoffLimitPerIndex, maxFailedIndexes: not-negative
    backoffLimitPerIndex: required pointer if has maxFailedIndexes
      "when maxFailedIndexes is specified"
    managedBy: domain-path pointer
    managedBy: longest 63
    completionMode: enum NonIndexed Indexed
    when completionMode is Indexed:
      completions: required pointer "when completion mode is Indexed"
      parallelism: at-most 100000
        "must be less than or equal to 100000 when completion mode is Indexed"
      maxFailedIndexes: invalid if fails_too_often
        "must be less than or equal to completions"
      maxFailedIndexes: at-most 100000
      when has_many:
        maxFailedIndexes: required pointer
          "must be specified when completions is above 100000"
        parallelism, maxFailedIndexes: at-most 10000
          "must be less than or equal to 10000 when completions are above 100000"
          "and used with backoff limit per index"
    when completionMode is NonIndexed null:
      backoffLimitPerIndex, maxFailedIndexes: refused
        "requires indexed completion mode"
    podFailurePolicy:
      rules: most 20
      rules[] outer:
        when action is FailIndex and outer lacks backoffLimitPerIndex:
          action: invalid "requires the backoffLimitPerIndex to be set"
        else:
          action: one-of Count FailIndex FailJob Ignore
        onExitCodes outer:
          operator: one-of In NotIn
          containerName: invalid if names_no_container
            "must be one of the container or initContainer names in the pod template"
          hook exit_values
        onPodConditions: most 20
        onPodConditions[]:
          type: qualified default empty
          status: one-of False True Unknown
        self: error if has onExitCodes and has onPodConditions
          "specifying both OnExitCodes and OnPodConditions is not supported"
        self: error if lacks onExitCodes onPodConditions
          "specifying one of OnExitCodes and OnPodConditions is required"
    when completionMode is Indexed:
      successPolicy:
        rules: required
          "at least one rules must be specified when the successPolicy is specified"
        rules: most 20
        rules[] outer:
          hook success_rule
    else:
      successPolicy: refused "requires indexed completion mode"
    when has podFailurePolicy:
      podReplacementPolicy: enum Failed
    else:
      podReplacementPolicy: enum Failed TerminatingOrFailed
    include POD_TEMPLATE
    hook restart_policy
    """,
    _fails_too_often,
    _has_many,
    _names_no_container,
    _exit_values,
    _success_rule,
    _restart_policy,
    POD_TEMPLATE=POD_TEMPLATE,
)
"""The spec of a job, without its selector."""


# Updates


def _completions(spec: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that an Indexed job changes its completions with its parallelism only."""
    completions, before = spec.get("completions"), old.get("completions")
    if completions not in (None, before, spec.get("parallelism")):
        why = "can only be modified in tandem with spec.parallelism"
        yield statuses.invalid(f"{path}completions", shown(completions), why)


def _template_changes(job: JSON, old: JSON) -> bool:
    """Tell whether a job changes fields of its template that are immutable now.

    A job that is suspended and has no active pods may change where its pods run, and
    their resources. Upstream's feature gates are
    MutableSchedulingDirectivesForSuspendedJobs and
    MutablePodResourcesForSuspendedJobs, both on by default since 1.36.
    """
    before, after = old["spec"]["template"], job["spec"]["template"]
    status = old.get("status", {})
    stopped = "startTime" not in status or any(
        each["type"] == "Suspended" and each["status"] == "True"
        for each in status.get("conditions", [])
    )
    if old["spec"].get("suspend") and stopped and not status.get("active"):
        before, after = _without_mutable_fields(before), _without_mutable_fields(after)
    return bool(before != after)


def _without_mutable_fields(template: JSON) -> JSON:
    given, pod = template.get("metadata", {}), template["spec"]
    metadata = {
        name: value
        for name, value in given.items()
        if name not in ("labels", "annotations")
    }
    spec = {name: value for name, value in pod.items() if name not in _SCHEDULING}
    affinity = {**pod.get("affinity", {})}
    affinity.pop("nodeAffinity", None)
    if affinity:
        spec["affinity"] = affinity
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [{**each, "resources": {}} for each in spec[name]]
    return {**template, "metadata": metadata, "spec": spec}


JOB_UPDATE: Final = table(
    """
    spec change:
      when completionMode is Indexed:
        hook completions
      else:
        completions: immutable
      selector: immutable
    when template_changes:
      spec change:
        template: immutable
    spec change:
      completionMode, podFailurePolicy, backoffLimitPerIndex: immutable
      managedBy, successPolicy: immutable
    """,
    _completions,
    _template_changes,
)
