"""Gives groups of pods the claims that their pods share (syncPodGroup)."""

from collections.abc import Iterable, Sequence
from typing import Final

from controller_manager.api.core.v1 import Pod, PodResourceClaim
from controller_manager.api.dynamicresources.v1 import ResourceClaimTemplate
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.client.errors import APIError, ProtocolError, TransportError
from controller_manager.client.events import WARNING
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome

from .consumers import Consumer, group_name, of_group
from .create import ClaimCreator, ClaimNotCreated, event_text
from .options import WORKLOAD_CLAIMS


def _template_keys(group: PodGroup) -> Iterable[str]:
    return {
        f"{group.metadata.namespace}/{each.resource_claim_template_name}"
        for each in of_group(group).wanted
        if each.resource_claim_template_name is not None
    }


def _is_same_group(old: PodGroup, new: PodGroup) -> bool:
    return old.metadata.uid == new.metadata.uid


GROUPS_BY_TEMPLATE: Final = Index("claim template", _template_keys, _is_same_group)
"""PodGroups by the keys of the templates that their claims come from."""


class PodGroups:
    """The groups of pods; without their feature gate there are none."""

    def __init__(self, context: ControllerContext, creator: ClaimCreator) -> None:
        """Take the cache of groups if the gate is enabled."""
        self.is_enabled = context.config.features.is_enabled(WORKLOAD_CLAIMS)
        self._groups = (
            context.lister(POD_GROUPS, GROUPS_BY_TEMPLATE) if self.is_enabled else None
        )
        self._recorder = context.recorder
        self._creator = creator

    def by_key(self, key: str) -> PodGroup | None:
        """Return a group by its key, `None` if there is none."""
        return None if self._groups is None else self._groups.by_key(key)

    def find(self, namespace: str, name: str) -> PodGroup | None:
        """Return a group, `None` if there is none, or if the gate is disabled."""
        return None if self._groups is None else self._groups.get(namespace, name)

    def using(self, template: ResourceClaimTemplate) -> Sequence[PodGroup]:
        """Return the groups whose claims come from a template."""
        if self._groups is None:
            return ()
        return self._groups.by_index(GROUPS_BY_TEMPLATE, key_of(template))

    def all(self) -> Sequence[PodGroup]:
        """Return all groups."""
        return () if self._groups is None else self._groups.all()

    def of(self, pod: Pod) -> Consumer | None:
        """Return the group that a pod belongs to, `None` for none."""
        name = group_name(pod)
        group = self.find(pod.metadata.namespace, name) if name else None
        return None if group is None else of_group(group)

    def needs_sync(self, group: PodGroup) -> bool:
        """Tell whether a group lacks a claim from a template."""
        consumer = of_group(group)
        return not is_deleting(group) and any(
            self._lacks(consumer, each) for each in consumer.wanted
        )

    def _lacks(self, consumer: Consumer, entry: PodResourceClaim) -> bool:
        if entry.resource_claim_name is not None:
            return False
        made = self._creator.claim_name_for(consumer, entry)
        if not consumer.is_known(entry):
            return True
        known_name = consumer.name_of(entry)
        return known_name is not None and known_name != made

    async def sync(self, key: str) -> Outcome:
        """Create the claims of the group with this key, and write their names."""
        group = self.by_key(key)
        if group is None or is_deleting(group):
            return DONE
        consumer = of_group(group)
        names: dict[str, str | None] = {}
        for each in consumer.wanted:
            if not self._lacks(consumer, each):
                continue
            try:
                name = await self._creator.make(consumer, each)
            except (ClaimNotCreated, APIError, ProtocolError, TransportError) as error:
                message = f"PodGroupResourceClaim {each.name}: {event_text(error)}"
                reason = "FailedResourceClaimCreation"
                self._recorder.event(POD_GROUPS, group, WARNING, reason, message)
                raise
            if name != consumer.name_of(each):
                names[each.name] = name
        if names:
            await self._creator.write_names(consumer, names)
        return DONE
