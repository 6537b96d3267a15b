"""Watches and caches of the horizontal pod autoscaler controller.

Upstream: pkg/controller/podautoscaler of v1.36 (horizontal.go).
"""

from typing import Final

from controller_manager.api.autoscaling.v2 import (
    HORIZONTAL_POD_AUTOSCALERS,
    HorizontalPodAutoscaler,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.api.meta import key_of
from controller_manager.control.scale.scales import Scales
from controller_manager.informers.indexes import BY_LABEL, BY_NAMESPACE
from controller_manager.options.config import Config
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff, ExponentialBackoff

from .apply import SyncFailed, Writer
from .compute_replicas import ReplicaComputation
from .metrics import INTERNAL, NONE, SPEC, AutoscalerMetrics
from .metrics_api import APIStuck
from .metrics_client import SHARES, MetricsClient
from .options import AutoscalerOptions, Settings
from .scale_target import TargetScales
from .selectors import BY_TARGET, Selection
from .stabilization import History
from .sync import Sync, Tools

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
