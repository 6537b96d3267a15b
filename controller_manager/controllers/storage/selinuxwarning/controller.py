"""Warns of pods that cannot share a volume (selinux_warning_controller.go)."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod, PodVolume
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import is_controlled_by, key_of, split_key
from controller_manager.api.pods import is_terminal
from controller_manager.api.storage.v1 import CSI_DRIVERS, CSIDriver
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.control.csi_migration import UntranslatableError
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_name
from controller_manager.informers.changes import DependsOn
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import volumes
from .conflicts import Conflict, VolumeUses


class SELinuxWarningMetrics(Collector):
    """One sample, always 1, for each conflict and each of its two pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._conflicts: Callable[[], Iterable[Conflict]] = tuple
        registry.register(self)

    def show(self, conflicts: Callable[[], Iterable[Conflict]]) -> None:
        """Use this function to read the conflicts from now on."""
        self._conflicts = conflicts

    def collect(self) -> Iterable[Metric]:
        """Return the metric with all conflicts."""
        family = GaugeMetricFamily(
            "selinux_warning_controller_selinux_volume_conflict",
            "Conflict between two Pods using the same volume",
            labels=(
                "property",
                *("pod1_namespace", "pod1_name", "pod1_value"),
                *("pod2_namespace", "pod2_name", "pod2_value"),
            ),
        )
        # Two pods may have the same conflict about several volumes.
        for each in dict.fromkeys(self._conflicts()):
            pod, other = split_key(each.pod), split_key(each.other)
            values = (each.name, *pod, each.value, *other, each.other_value)
            family.add_metric(values, 1)
        yield family


_BOUND = "Bound"


def _has_ended(old: Pod, new: Pod) -> bool:
    """Tell whether an update matters: the relevant fields of a pod never change."""
    return is_terminal(old) != is_terminal(new)


class SELinuxWarningReconciler(Reconciler[Pod]):
    """Warns pods that use one volume with different labels or policies.

    Only drivers and plugins that mount volumes with a label matter: for others the
    container runtime changes the label of each file, and the last pod wins.
    """

    queue_name = "selinux_warning"

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        if not claim.spec.volume_name:
            return ()
        return map(key_of, self._pods.by_index(PODS_BY_CLAIM, key_of(claim)))

    def _of_volume(self, volume: PersistentVolume) -> Iterable[str]:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return ()
        key = f"{reference.namespace}/{reference.name}"
        return map(key_of, self._pods.by_index(PODS_BY_CLAIM, key))

    def _of_driver(self, driver: CSIDriver) -> Iterable[str]:
        """Return the pods with volumes of a driver that may mount labels now."""
        return self._uses.pods_of(driver.metadata.name)

    watches = (
        For(PODS, when_changed=_has_ended, depends_on=DependsOn("status.phase")),
        Maps(CLAIMS, _of_claim),
        Maps(PERSISTENT_VOLUMES, _of_volume),
        Maps(CSI_DRIVERS, _of_driver),
    )

    def __init__(self, context: ControllerContext) -> None:
        self._uses = VolumeUses()
        self._pods = context.lister(PODS, PODS_BY_CLAIM)
        context.metrics.of(SELinuxWarningMetrics).show(self._uses.conflicts)
        super().__init__(context)

    async def reconcile(self, pod: Pod) -> Outcome:
        """Track the volumes of a pod, and record events about new conflicts."""
        if is_terminal(pod):
            self._uses.forget(key_of(pod))
            return DONE
        for conflict in self._uses.note(key_of(pod), self._uses_of(pod)):
            told = self.objects.by_key(conflict.pod)
            if told is not None:
                self.recorder.event(
                    PODS, told, NORMAL, conflict.reason, conflict.message
                )
        return DONE

    def deleted(self, obj: Pod) -> None:
        """Drop the volumes of a pod that is gone, before another pod has its name."""
        self._uses.forget(key_of(obj))

    def forget(self, key: str) -> None:
        """Drop the volumes of a pod that is gone."""
        self._uses.forget(key)

    def _uses_of(self, pod: Pod) -> dict[volumes.Volume, volumes.Use]:
        sources = {each.name: each for each in pod.spec.volumes or ()}
        found: dict[volumes.Volume, volumes.Use] = {}
        for name, labels in volumes.mounted_labels(pod).items():
            # A cache leaves out the volumes that no controller looks at.
            source = sources.get(name, PodVolume(name=name))
            volume = self._volume_of(pod, source)
            if volume is None:
                continue
            if len(labels) > 1:
                self._tell_of_two_labels(pod, name)
            elif volume != volumes.ALONE:
                mounts = self._mounts_labels(volume)
                use = volumes.use_of(pod, next(iter(labels), ""), mounts_label=mounts)
                found[volume] = use
        return found

    def _tell_of_two_labels(self, pod: Pod, volume: str) -> None:
        message = (
            f'Volume "{volume}" is mounted twice with different SELinux labels inside '
            "this pod"
        )
        self.recorder.event(PODS, pod, WARNING, "MultipleSELinuxLabels", message)

    def _mounts_labels(self, volume: volumes.Volume) -> bool:
        name, _ = volume
        if not name:
            return True
        driver = self.lister(CSI_DRIVERS).get("", name)
        return driver is not None and bool(driver.spec.se_linux_mount)

    def _volume_of(self, pod: Pod, volume: PodVolume) -> volumes.Volume | None:
        """Return the volume of a pod's entry, `None` if the caches do not show it."""
        try:
            if name := claim_name(pod, volume):
                bound = self._bound_to(pod, volume, name)
                return None if bound is None else volumes.shared_volume(bound)
            return volumes.shared_inline_volume(volume, pod.metadata.namespace)
        except UntranslatableError as error:
            self.logger.v(4).info("Skipping a volume", pod=key_of(pod), reason=error)
            return None

    def _bound_to(
        self, pod: Pod, volume: PodVolume, name: str
    ) -> PersistentVolume | None:
        """Return the volume of a claim, if both are bound to each other."""
        claim = self.lister(CLAIMS).get(pod.metadata.namespace, name)
        if claim is None or claim.status.phase != _BOUND:
            return None
        if volume.ephemeral is not None and not is_controlled_by(claim, pod):
            return None
        found = self.lister(PERSISTENT_VOLUMES).get("", claim.spec.volume_name)
        reference = None if found is None else found.spec.claim_ref
        is_same = reference is not None and reference.uid == claim.metadata.uid
        return found if is_same else None
