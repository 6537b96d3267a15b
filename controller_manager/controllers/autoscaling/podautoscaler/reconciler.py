"""Watches and caches of the horizontal pod autoscaler controller.

Upstream: pkg/controller/podautoscaler of v1.36 (horizontal.go).

One sync of an autoscaler: read the target and the metrics, decide, write.

Upstream: reconcileAutoscaler of pkg/controller/podautoscaler/horizontal.go.
"""

from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import (
    HORIZONTAL_POD_AUTOSCALERS,
    HorizontalPodAutoscaler,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import key_of
from controller_manager.clock import Clock
from controller_manager.control.scale.scales import Scales
from controller_manager.informers.indexes import BY_LABEL, BY_NAMESPACE
from controller_manager.observability.logs import Logger
from controller_manager.options.config import Config
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from . import decide
from .apply import SyncFailed, Writer
from .behavior import complete_rules
from .compute_replicas import ComputedReplicas, ReplicaComputation
from .decide import NormalizationArgs, normalized
from .metric_status import EvaluationContext, Target
from .metrics import INTERNAL, NONE, SPEC, AutoscalerMetrics, action_of
from .metrics_api import APIStuck
from .metrics_client import SHARES, MetricsClient
from .options import AutoscalerOptions, Settings
from .scale_target import REQUEST_ERRORS, TargetError, TargetScale, TargetScales
from .selectors import BY_TARGET, Selection
from .stabilization import History, scaled, started
from .status import (
    ABLE_TO_SCALE,
    FALSE,
    SCALED_TO_ZERO,
    SCALING_ACTIVE,
    SCALING_LIMITED,
    TRUE,
    Draft,
)

_ORIGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant at which the clock that never jumps shows zero."""


class Tools(Struct, frozen=True):
    """The objects that all syncs share."""

    settings: Settings
    scales: TargetScales
    selection: Selection
    metrics_client: MetricsClient
    replica_computation: ReplicaComputation
    metrics: AutoscalerMetrics
    clock: Clock
    logger: Logger


class Choice(Struct, frozen=True):
    """The number of replicas for the target, and the reason."""

    replicas: int
    reason: str = ""
    computed: ComputedReplicas = ComputedReplicas()


class Sync:
    """One sync of one autoscaler.

    `action` is the label of metrics for the change of the target. `history` is for the
    next sync.
    """

    def __init__(
        self,
        tools: Tools,
        autoscaler: HorizontalPodAutoscaler,
        history: History,
        writer: Writer,
    ) -> None:
        self.history = history
        self._tools = tools
        self._autoscaler = autoscaler
        self._writer = writer
        self._now = tools.clock.now()
        # The history has times of a clock that never jumps, as upstream's.
        self._instant = _ORIGIN + timedelta(seconds=tools.clock.monotonic())
        self._draft = Draft(autoscaler, self._now)
        self.action = NONE

    async def run(self) -> None:
        """Set the target's number of replicas, and write the status.

        Raises SyncFailed if a part of the sync failed. Raises APIStuck, before any
        write, if a metrics API does not answer.
        """
        metrics = self._autoscaler.spec.metrics or ()
        async with self._tools.metrics_client.slots(metrics):
            target = await self._read_target()
            choice = await self._choose(target)
        current = target.scale.spec.replicas
        if choice.replicas != current:
            await self._rescale(target, choice)
        self._draft.decided(
            current,
            choice.replicas,
            choice.computed.statuses,
            rescaled=choice.replicas != current,
        )
        metadata = self._autoscaler.metadata
        self._tools.metrics.desired(metadata.namespace, metadata.name, choice.replicas)
        await self._writer.report(self._draft.status())
        if problem := choice.computed.problem:
            raise SyncFailed(problem, is_spec=choice.computed.is_spec)

    # The target.

    async def _read_target(self) -> TargetScale:
        """Return the scale of the target, and note its number of replicas."""
        try:
            target = await self._tools.scales.get(self._autoscaler)
        except TargetError as error:
            self._writer.warn("FailedGetScale", str(error))
            message = (
                "the HPA controller was unable to get the target's current scale: "
                f"{error}"
            )
            self._draft.set(ABLE_TO_SCALE, FALSE, "FailedGetScale", message)
            await self._report_anyway()
            msg = f"failed to query scale subresource for {self._reference}: {error}"
            raise SyncFailed(msg, is_spec=error.is_spec) from error
        message = "the HPA controller was able to get the target's current scale"
        self._draft.set(ABLE_TO_SCALE, TRUE, "SucceededGetScale", message)
        replicas = target.scale.spec.replicas
        self.history = started(self.history, replicas, self._instant)
        return target

    async def _rescale(self, target: TargetScale, choice: Choice) -> None:
        replicas, before = choice.replicas, target.scale.spec.replicas
        try:
            await self._writer.rescale(target, replicas, choice.reason)
        except REQUEST_ERRORS as error:
            message = (
                f"the HPA controller was unable to update the target scale: {error}"
            )
            self._draft.set(ABLE_TO_SCALE, FALSE, "FailedUpdateScale", message)
            self._draft.measured(before, choice.computed.statuses)
            await self._report_anyway()
            msg = f"failed to rescale {self._reference}: {error}"
            raise SyncFailed(msg) from error
        message = (
            f"the HPA controller was able to update the target scale to {replicas}"
        )
        self._draft.set(ABLE_TO_SCALE, TRUE, "SucceededRescale", message)
        self._remember(before, replicas)
        self._note_zero(before, replicas)
        self.action = action_of(before, replicas)
        self._tools.logger.info(
            "Successfully rescaled",
            currentReplicas=before,
            desiredReplicas=replicas,
            reason=choice.reason,
        )

    def _remember(self, before: int, after: int) -> None:
        """Note the change for the policies of the behavior, which count changes."""
        behavior = self._autoscaler.spec.behavior
        if behavior is not None:
            keep = complete_rules(behavior).longest_period
            self.history = scaled(self.history, before, after, self._instant, keep)

    def _note_zero(self, before: int, after: int) -> None:
        """Set ScaledToZero: true if this autoscaler scaled the target to zero."""
        if not self._tools.settings.scales_to_zero:
            self._draft.remove(SCALED_TO_ZERO)
            return
        spec = self._autoscaler.spec
        may_be_zero = decide.minimum_of(spec) == 0 and decide.can_leave_zero(spec)
        self._draft.note_zero(is_ours=before > 0 and after == 0 and may_be_zero)

    # The choice.

    async def _choose(self, target: TargetScale) -> Choice:
        spec, settings = self._autoscaler.spec, self._tools.settings
        current = target.scale.spec.replicas
        start = decide.first_decision(
            spec,
            current,
            was_scaled_to_zero=settings.scales_to_zero
            and self._draft.is_true(SCALED_TO_ZERO),
        )
        if start.is_disabled:
            message = (
                "scaling is disabled since the replica count of the target is zero"
            )
            self._draft.set(SCALING_ACTIVE, FALSE, "ScalingDisabled", message)
            if not settings.scales_to_zero:
                self._draft.remove(SCALED_TO_ZERO)
        if not start.needs_metrics:
            return Choice(start.desired, start.reason)
        return self._normalized(current, await self._measure(target))

    async def _measure(self, target: TargetScale) -> ComputedReplicas:
        """Return the number that the metrics ask for; raises SyncFailed without one."""
        scale, tools = target.scale, self._tools
        try:
            selector = tools.selection.of_target(
                self._autoscaler, scale.status.selector, self._draft, self._writer
            )
        except SyncFailed as failure:
            computed = ComputedReplicas(problem=str(failure))
        else:
            namespace = self._autoscaler.metadata.namespace
            of = Target(
                namespace,
                scale.spec.replicas,
                scale.status.replicas,
                scale.status.selector,
                lambda: tools.selection.pods(namespace, selector),
            )
            thresholds = tools.settings.thresholds(self._autoscaler.spec.behavior)
            pod_level = tools.settings.pod_level
            context = EvaluationContext(
                tools.metrics_client, of, thresholds, self._now, pod_level
            )
            computed = await tools.replica_computation.compute(
                self._autoscaler, context, self._draft, self._writer
            )
        if computed.replicas is None:
            await self._give_up(scale.spec.replicas, computed)
        return computed

    async def _give_up(self, current: int, computed: ComputedReplicas) -> NoReturn:
        problem = computed.problem
        self._draft.measured(current, computed.statuses)
        await self._report_anyway()
        self._writer.warn("FailedComputeMetricsReplicas", problem)
        msg = (
            "failed to compute desired number of replicas based on listed metrics for "
            f"{self._reference}: {problem}"
        )
        raise SyncFailed(msg, is_spec=computed.is_spec)

    def _normalized(self, current: int, computed: ComputedReplicas) -> Choice:
        """Return the number that recent recommendations, limits and rates allow."""
        spec, settings = self._autoscaler.spec, self._tools.settings
        minimum = decide.minimum_of(spec)
        desired = max(computed.replicas or 0, 0)
        reason = decide.reason_for(current, desired, computed.name)
        args = NormalizationArgs(
            current, desired, minimum, spec.max_replicas, spec.behavior
        )
        result = normalized(
            args,
            self.history,
            self._instant,
            settings.downscale_stabilization,
        )
        self.history = result.history
        able, limited = result.able_to_scale, result.scaling_limited
        self._draft.set(ABLE_TO_SCALE, able.status, able.reason, able.message)
        self._draft.set(
            SCALING_LIMITED, limited.status, limited.reason, limited.message
        )
        replicas = result.replicas
        if current == 0 and replicas < minimum:
            # The minimum was raised while the target had zero replicas.
            replicas, reason = minimum, reason or decide.BELOW_MINIMUM
        return Choice(replicas, reason, computed)

    @property
    def _reference(self) -> str:
        """The name of the target in messages."""
        reference = self._autoscaler.spec.scale_target_ref
        namespace = self._autoscaler.metadata.namespace
        return f"{reference.kind}/{namespace}/{reference.name}"

    async def _report_anyway(self) -> None:
        """Write the status after a failure. A failure of this write is only logged."""
        try:
            await self._writer.report(self._draft.status())
        except SyncFailed as failure:
            self._tools.logger.error("Status not written", err=str(failure))


_REQUEUE_AFTER: Final = 2.0
"""Seconds until the next sync of an autoscaler whose metrics API is stuck."""


_SHORTEST_PERIOD: Final = 0.1
"""The least seconds between two syncs: with 0 no other task would run."""


def _sync_period(config: Config) -> float:
    return max(config.of(AutoscalerOptions).sync_period, _SHORTEST_PERIOD)


class AutoscalerReconciler(Reconciler[HorizontalPodAutoscaler]):
    """Keeps the metrics of workloads close to their targets.

    Each autoscaler is synced once in a sync period, also after a failure. A new or
    changed autoscaler is synced after a sync period, as upstream's.
    """

    queue_name = "horizontalpodautoscaler"

    watches = (For(HORIZONTAL_POD_AUTOSCALERS, delay_from=_sync_period),)

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the pods by their labels."""
        super().__init__(context)
        options = context.config.of(AutoscalerOptions)
        self._period = _sync_period(context.config)
        # While some syncs wait for a metrics API, the other syncs go on.
        self.workers = options.concurrent_syncs * SHARES
        self._histories: dict[str, History] = {}
        self._metrics = context.metrics.of(AutoscalerMetrics)
        self._tools = self._make_tools(context, options)

    def _make_tools(
        self, context: ControllerContext, options: AutoscalerOptions
    ) -> Tools:
        client, clock = context.client, context.clock
        scales = Scales(client, context.resources)
        return Tools(
            Settings.of(context.config),
            TargetScales(scales, context.resources, context.rng, context.logger),
            Selection(
                context.lister(PODS, BY_LABEL, BY_NAMESPACE),
                context.lister(HORIZONTAL_POD_AUTOSCALERS, BY_TARGET),
            ),
            MetricsClient(
                client,
                clock,
                context.resources,
                concurrency=options.concurrent_syncs,
                sync_period=options.sync_period,
            ),
            ReplicaComputation(self._metrics, clock),
            self._metrics,
            clock,
            context.logger,
        )

    def backoff(self) -> Backoff:
        """Return the delay after an unexpected failure: always a sync period."""
        period = _sync_period(self.context.config)
        return ExponentialBackoff(period, period)

    async def reconcile(self, autoscaler: HorizontalPodAutoscaler) -> Outcome:
        """Scale the target of an autoscaler to the number that its metrics ask for."""
        metrics = autoscaler.spec.metrics or ()
        if (api := self._tools.metrics_client.busy(metrics)) is not None:
            return Requeue(_REQUEUE_AFTER, str(APIStuck(api.group)))
        self._metrics.count(len(self.objects))
        writer = Writer(self.client, self.recorder, self._tools.scales, autoscaler)
        history = self._histories.get(key_of(autoscaler), History())
        sync = Sync(self._tools, autoscaler, history, writer)
        began, error = self.clock.monotonic(), NONE
        try:
            await sync.run()
        except SyncFailed as failure:
            error = SPEC if failure.is_spec else INTERNAL
            self.logger.error("Sync failed", err=str(failure))
        except APIStuck as stuck:
            return Requeue(_REQUEUE_AFTER, str(stuck))
        finally:
            self._remember(autoscaler, sync.history)
        self._metrics.synced(sync.action, error, self.clock.monotonic() - began)
        return Done(self._period)

    def _remember(self, autoscaler: HorizontalPodAutoscaler, history: History) -> None:
        """Keep the history of an autoscaler, unless it was deleted meanwhile."""
        key = key_of(autoscaler)
        known = self.objects.by_key(key)
        if known is not None and known.metadata.uid == autoscaler.metadata.uid:
            self._histories[key] = history

    def deleted(self, obj: HorizontalPodAutoscaler) -> None:
        """Drop the state of an autoscaler, so a new one of its name starts anew."""
        self.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the state of an autoscaler that is gone."""
        namespace, _, name = key.partition("/")
        self._histories.pop(key, None)
        self._tools.selection.forget(key)
        self._metrics.forget(namespace, name)
        self._metrics.count(len(self.objects))
