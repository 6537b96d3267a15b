"""The horizontal pod autoscaler: scales workloads by metrics of their pods.

Upstream: pkg/controller/podautoscaler/horizontal.go.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.autoscaling.v1 import Scale
from controller_manager.api.autoscaling.v2 import (
    HORIZONTAL_POD_AUTOSCALERS,
    HorizontalPodAutoscaler,
    MetricSpec,
    MetricStatus,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import key_of
from controller_manager.api.selectors import Selector, SelectorError, parse_selector
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.control.gates import POD_LEVEL_RESOURCES
from controller_manager.informers.store import BY_LABEL, BY_NAMESPACE
from controller_manager.options.config import Config
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from . import CONFIGURABLE_TOLERANCE, SCALE_TO_ZERO, AutoscalerOptions, behavior
from .metric_sources import Evaluation, MetricFailure, MetricSources
from .metrics import INTERNAL, NONE, SPEC, AutoscalerMetrics, action_of
from .metrics_api import APIStuck
from .metrics_client import SHARES, MetricsClient
from .pods import Readiness, Thresholds, tolerances_of
from .scale_target import REQUEST_ERRORS, TargetScale, TargetScales
from .selectors import BY_TARGET, Overlaps, selected, target_of
from .status import (
    ABLE_TO_SCALE,
    FALSE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    TRUE,
    Draft,
    SyncFailed,
)

_ORIGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant at which the clock that never jumps shows zero."""

_REQUEUE_AFTER: Final = 2.0
"""Seconds until the next sync of an autoscaler whose metrics API is stuck."""

_SHORTEST_PERIOD: Final = 0.1
"""The least seconds between two syncs: with 0 no other task would run."""


def _sync_period(config: Config) -> float:
    return max(config.of(AutoscalerOptions).sync_period, _SHORTEST_PERIOD)


class _Sync(Struct):
    """One sync of an autoscaler.

    `draft` is the status that it writes, `history` is for the next sync, and `action`
    is the label of metrics for the change of the target. The history has the times of
    a clock that never jumps, as upstream's; `instant` is such a time.
    """

    autoscaler: HorizontalPodAutoscaler
    now: datetime
    instant: datetime
    draft: Draft
    history: behavior.History
    action: str = NONE


class _Choice(Struct, frozen=True):
    """The number of replicas for the target, and the reason in the event.

    `problem` names metrics that could not be read although the others allow a choice;
    `is_spec` is true if the spec is the cause.
    """

    replicas: int
    reason: str = ""
    statuses: Sequence[MetricStatus] = ()
    problem: str = ""
    is_spec: bool = False


class AutoscalerReconciler(Reconciler[HorizontalPodAutoscaler]):
    """Keeps the metrics of workloads close to their targets.

    Each autoscaler is synced once in a sync period, also after a failure. A new or
    changed autoscaler is synced after a sync period, as upstream's.
    """

    queue_name = "horizontalpodautoscaler"

    watches = (For(HORIZONTAL_POD_AUTOSCALERS, delay_from=_sync_period),)

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._options = options = context.config.of(AutoscalerOptions)
        self._period = _sync_period(context.config)
        # While some syncs wait for a metrics API, the other syncs go on.
        self.workers = options.concurrent_syncs * SHARES
        features = context.config.features
        self._scales_to_zero = features.is_enabled(SCALE_TO_ZERO)
        self._reads_tolerances = features.is_enabled(CONFIGURABLE_TOLERANCE)
        self._pod_level = features.is_enabled(POD_LEVEL_RESOURCES)
        self._histories: dict[str, behavior.History] = {}
        self._metrics = context.metrics.of(AutoscalerMetrics)
        self._scales = TargetScales(context)
        self._pods = context.lister(PODS, BY_LABEL, BY_NAMESPACE)
        self._autoscalers = context.lister(HORIZONTAL_POD_AUTOSCALERS, BY_TARGET)
        self._overlaps = Overlaps()
        self._metrics_client = MetricsClient(
            context.client,
            context.clock,
            context.resources,
            concurrency=options.concurrent_syncs,
            sync_period=options.sync_period,
        )

    def backoff(self) -> Backoff:
        """Return the delay after an unexpected failure: always a sync period."""
        period = _sync_period(self.context.config)
        return ExponentialBackoff(period, period)

    def deleted(self, obj: HorizontalPodAutoscaler) -> None:
        """Drop the state of an autoscaler, so a new one of its name starts anew."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of an autoscaler that is gone."""
        namespace, _, name = key.partition("/")
        self._histories.pop(key, None)
        self._overlaps.forget(key)
        self._metrics.forget(namespace, name)
        self._metrics.autoscalers.set(len(self.objects))

    async def reconcile(self, autoscaler: HorizontalPodAutoscaler) -> Outcome:
        """Scale the target of an autoscaler to the number that its metrics ask for."""
        api = self._metrics_client.busy(autoscaler.spec.metrics or ())
        if api is not None:
            return Requeue(_REQUEUE_AFTER, str(APIStuck(api.group)))
        self._metrics.autoscalers.set(len(self.objects))
        now, began, key = self.clock.now(), self.clock.monotonic(), key_of(autoscaler)
        sync = _Sync(
            autoscaler,
            now,
            _ORIGIN + timedelta(seconds=began),
            Draft(autoscaler, now),
            self._histories.get(key, behavior.History()),
        )
        error = NONE
        try:
            await self._sync_autoscaler(sync)
        except SyncFailed as failure:
            error = SPEC if failure.is_spec else INTERNAL
            self.logger.error("Sync failed", err=str(failure))
        except APIStuck as stuck:
            return Requeue(_REQUEUE_AFTER, str(stuck))
        finally:
            known = self.objects.by_key(key)
            if known is not None and known.metadata.uid == autoscaler.metadata.uid:
                self._histories[key] = sync.history
        self._metrics.synced(sync.action, error, self.clock.monotonic() - began)
        return Done(self._period)

    async def _sync_autoscaler(self, sync: _Sync) -> None:
        """Scale the target and write the status (reconcileAutoscaler)."""
        metadata, spec = sync.autoscaler.metadata, sync.autoscaler.spec
        async with self._metrics_client.slots(spec.metrics or ()):
            target = await self._read_target(sync)
            choice = await self._choose(sync, target.scale)
        current, replicas = target.scale.spec.replicas, choice.replicas
        if replicas != current:
            await self._rescale(sync, target, choice)
        sync.draft.decided(
            current, replicas, choice.statuses, rescaled=replicas != current
        )
        self._metrics.desired.labels(metadata.namespace, metadata.name).set(replicas)
        await self._update_status(sync)
        if choice.problem:
            raise SyncFailed(choice.problem, is_spec=choice.is_spec)

    # The scale of the target.

    async def _read_target(self, sync: _Sync) -> TargetScale:
        try:
            target = await self._scales.get(sync.autoscaler)
        except SyncFailed as error:
            self._warn(sync, "FailedGetScale", str(error))
            message = (
                "the HPA controller was unable to get the target's current scale: "
                f"{error}"
            )
            sync.draft.set(ABLE_TO_SCALE, FALSE, "FailedGetScale", message)
            await self._update_status_anyway(sync)
            named = _reference(sync.autoscaler)
            msg = f"failed to query scale subresource for {named}: {error}"
            raise SyncFailed(msg, is_spec=error.is_spec) from error
        message = "the HPA controller was able to get the target's current scale"
        sync.draft.set(ABLE_TO_SCALE, TRUE, "SucceededGetScale", message)
        replicas = target.scale.spec.replicas
        sync.history = behavior.started(sync.history, replicas, sync.instant)
        return target

    async def _rescale(self, sync: _Sync, target: TargetScale, choice: _Choice) -> None:
        replicas, before = choice.replicas, target.scale.spec.replicas
        told = f"New size: {replicas}; reason: {choice.reason}"
        try:
            await self._scales.set(target, replicas)
        except REQUEST_ERRORS as error:
            self._warn(sync, "FailedRescale", f"{told}; error: {error}")
            message = (
                f"the HPA controller was unable to update the target scale: {error}"
            )
            sync.draft.set(ABLE_TO_SCALE, FALSE, "FailedUpdateScale", message)
            sync.draft.measured(before, choice.statuses)
            await self._update_status_anyway(sync)
            msg = f"failed to rescale {_reference(sync.autoscaler)}: {error}"
            raise SyncFailed(msg) from error
        self._record(sync, NORMAL, "SuccessfulRescale", told)
        message = (
            f"the HPA controller was able to update the target scale to {replicas}"
        )
        sync.draft.set(ABLE_TO_SCALE, TRUE, "SucceededRescale", message)
        self._note_change(sync, before, replicas)
        self.logger.info(
            "Successfully rescaled",
            currentReplicas=before,
            desiredReplicas=replicas,
            reason=choice.reason,
        )

    def _note_change(self, sync: _Sync, before: int, after: int) -> None:
        spec = sync.autoscaler.spec
        if spec.behavior is not None:
            keep = behavior.complete_rules(spec.behavior).longest_period
            sync.history = behavior.scaled(
                sync.history, before, after, sync.instant, keep
            )
        sync.action = action_of(before, after)
        if not self._scales_to_zero:
            sync.draft.remove(SCALED_TO_ZERO)
            return
        may_be_zero = behavior.minimum_of(spec) == 0 and behavior.can_leave_zero(spec)
        if before > 0 and after == 0 and may_be_zero:
            message = "the HPA controller scaled the workload to zero"
            sync.draft.set(SCALED_TO_ZERO, TRUE, "ScaledToZero", message)
        else:
            message = "the HPA controller did not scale the workload to zero"
            sync.draft.set(SCALED_TO_ZERO, FALSE, "NotScaledToZero", message)

    # The number of replicas.

    async def _choose(self, sync: _Sync, scale: Scale) -> _Choice:
        current, draft = scale.spec.replicas, sync.draft
        start = behavior.first_decision(
            sync.autoscaler.spec,
            current,
            was_scaled_to_zero=self._scales_to_zero and draft.is_true(SCALED_TO_ZERO),
        )
        if start.is_disabled:
            message = (
                "scaling is disabled since the replica count of the target is zero"
            )
            draft.set(SCALING_ACTIVE, FALSE, "ScalingDisabled", message)
            if not self._scales_to_zero:
                draft.remove(SCALED_TO_ZERO)
        if not start.needs_metrics:
            return _Choice(start.desired, start.reason)
        return await self._choose_by_metrics(sync, scale)

    async def _choose_by_metrics(self, sync: _Sync, scale: Scale) -> _Choice:
        # A metric that cannot be read prevents fewer replicas, but not more
        # (computeReplicasForMetrics).
        try:
            sources = self._sources(sync, scale)
        except SyncFailed as failure:
            await self._give_up(sync, scale, (), failure)
        found: list[Evaluation] = []
        statuses: list[MetricStatus] = []
        failures: list[MetricFailure] = []
        before = sync.autoscaler.status.current_replicas
        for spec in sync.autoscaler.spec.metrics or ():
            try:
                each = await self._evaluate(sources, spec, before)
            except MetricFailure as failure:
                self._warn(sync, failure.reason, failure.cause)
                failures.append(failure)
                statuses.append(MetricStatus())
            else:
                found.append(each)
                statuses.append(each.status)
        chosen = _highest(found)
        problem = _problem_of(failures, len(statuses))
        if chosen is None or (failures and chosen.replicas < scale.spec.replicas):
            if failures:
                cause = failures[0].cause
                message = f"the HPA was unable to compute the replica count: {cause}"
                sync.draft.set(SCALING_ACTIVE, FALSE, failures[0].reason, message)
            await self._give_up(sync, scale, statuses, problem)
        message = (
            "the HPA was able to successfully calculate a replica count from "
            f"{chosen.name}"
        )
        sync.draft.set(SCALING_ACTIVE, TRUE, "ValidMetricFound", message)
        replicas, reason = self._normalized(sync, scale.spec.replicas, chosen)
        if not failures:
            return _Choice(replicas, reason, statuses)
        return _Choice(replicas, reason, statuses, str(problem), problem.is_spec)

    def _sources(self, sync: _Sync, scale: Scale) -> MetricSources:
        namespace = sync.autoscaler.metadata.namespace
        selector = self._selector_of(sync, scale.status.selector)
        options, tolerance = self._options, self._options.tolerance
        rules = sync.autoscaler.spec.behavior if self._reads_tolerances else None
        readiness = Readiness(
            timedelta(seconds=options.cpu_initialization_period),
            timedelta(seconds=options.initial_readiness_delay),
        )
        return MetricSources(
            self._metrics_client,
            namespace,
            scale.spec.replicas,
            scale.status.replicas,
            scale.status.selector,
            lambda: selected(self._pods, namespace, selector),
            Thresholds(tolerances_of(rules, tolerance), readiness),
            sync.now,
            self._pod_level,
        )

    def _selector_of(self, sync: _Sync, text: str) -> Selector:
        """Return the selector of a scale, or give up (validateAndParseSelector)."""
        if not text:
            message = "selector is required"
            self._warn(sync, "SelectorRequired", message)
            shown = "the HPA target's scale is missing a selector"
            sync.draft.set(SCALING_ACTIVE, FALSE, "InvalidSelector", shown)
            raise SyncFailed(message)
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            message = (
                "couldn't convert selector into a corresponding internal selector "
                f"object: {error}"
            )
            raise self._unusable(sync, "InvalidSelector", message) from error
        namespace = sync.autoscaler.metadata.namespace
        self._overlaps.put(key_of(sync.autoscaler), selector)
        # Other autoscalers of this target may not have been synced yet.
        for other in self._autoscalers.by_index(BY_TARGET, target_of(sync.autoscaler)):
            self._overlaps.put(key_of(other), selector)
        pods = self._pods.matching(namespace, selector)
        selecting = self._overlaps.selecting(namespace, pods)
        if len(selecting) > 1:
            message = (
                f"pods by selector {text} are controlled by multiple HPAs: "
                f"[{' '.join(selecting)}]"
            )
            raise self._unusable(sync, "AmbiguousSelector", message)
        return selector

    def _unusable(self, sync: _Sync, reason: str, message: str) -> SyncFailed:
        self._warn(sync, reason, message)
        sync.draft.set(SCALING_ACTIVE, FALSE, reason, message)
        return SyncFailed(message)

    async def _evaluate(
        self, sources: MetricSources, spec: MetricSpec, current: int
    ) -> Evaluation:
        began = self.clock.monotonic()
        action, error = NONE, INTERNAL
        try:
            evaluation = await sources.evaluate(spec)
        except MetricFailure as failure:
            error = SPEC if failure.is_spec else INTERNAL
            raise
        else:
            action, error = action_of(current, evaluation.replicas), NONE
            return evaluation
        finally:
            seconds = self.clock.monotonic() - began
            self._metrics.computed(action, error, spec.type, seconds)

    async def _give_up(
        self,
        sync: _Sync,
        scale: Scale,
        statuses: Iterable[MetricStatus],
        problem: SyncFailed,
    ) -> NoReturn:
        sync.draft.measured(scale.spec.replicas, statuses)
        await self._update_status_anyway(sync)
        self._warn(sync, "FailedComputeMetricsReplicas", str(problem))
        msg = (
            "failed to compute desired number of replicas based on listed metrics for "
            f"{_reference(sync.autoscaler)}: {problem}"
        )
        raise SyncFailed(msg, is_spec=problem.is_spec)

    def _normalized(
        self, sync: _Sync, current: int, chosen: Evaluation
    ) -> tuple[int, str]:
        """Return the number that recent recommendations, limits and rates allow."""
        spec, draft = sync.autoscaler.spec, sync.draft
        minimum, desired = behavior.minimum_of(spec), max(chosen.replicas, 0)
        reason = behavior.reason_for(current, desired, chosen.name)
        window = timedelta(seconds=self._options.downscale_stabilization)
        result = behavior.normalized(
            spec, current, desired, sync.history, sync.instant, window
        )
        sync.history = result.history
        draft.set(ABLE_TO_SCALE, TRUE, *result.stabilization)
        is_limited = TRUE if result.is_limited else FALSE
        limit = result.limit
        draft.set(SCALING_LIMITED, is_limited, limit.reason, limit.message)
        if current == 0 and limit.replicas < minimum:
            # The minimum was raised while the target had zero replicas.
            return minimum, reason or behavior.BELOW_MINIMUM
        return limit.replicas, reason

    # The status, and events.

    async def _update_status(self, sync: _Sync) -> None:
        known = sync.autoscaler
        if not sync.draft.has_changed:
            return
        changed = replace(known, status=sync.draft.status())
        try:
            await self.client.update_for_metadata(
                HORIZONTAL_POD_AUTOSCALERS, changed, "status"
            )
        except REQUEST_ERRORS as error:
            self._warn(sync, "FailedUpdateStatus", str(error))
            msg = f"failed to update status for {known.metadata.name}: {error}"
            raise SyncFailed(msg) from error

    async def _update_status_anyway(self, sync: _Sync) -> None:
        """Write the status after a failure. A failure of this write is only logged."""
        try:
            await self._update_status(sync)
        except SyncFailed as failure:
            self.logger.error("Status not written", err=str(failure))

    def _warn(self, sync: _Sync, reason: str, message: str) -> None:
        self._record(sync, WARNING, reason, message)

    def _record(self, sync: _Sync, kind: str, reason: str, message: str) -> None:
        about = HORIZONTAL_POD_AUTOSCALERS, sync.autoscaler
        self.recorder.event(*about, kind, reason, message)


def _reference(autoscaler: HorizontalPodAutoscaler) -> str:
    """Return the name of a target in messages."""
    reference = autoscaler.spec.scale_target_ref
    return f"{reference.kind}/{autoscaler.metadata.namespace}/{reference.name}"


def _highest(found: Sequence[Evaluation]) -> Evaluation | None:
    """Return the first of the highest; of several with 0 the last, as upstream does."""
    chosen: Evaluation | None = None
    for each in found:
        if chosen is None or chosen.replicas == 0 or each.replicas > chosen.replicas:
            chosen = each
    return chosen


def _problem_of(failures: Sequence[MetricFailure], metrics: int) -> SyncFailed:
    problem = f"invalid metrics ({len(failures)} invalid out of {metrics})"
    if not failures:
        return SyncFailed(problem)
    problem += f", first error is: {failures[0]}"
    return SyncFailed(problem, is_spec=failures[0].is_spec)
