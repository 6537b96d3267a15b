"""What is known of a daemon set's template and kept from sync to sync."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Raw

from controller_manager.api.apps.v1 import ControllerRevision, DaemonSet
from controller_manager.api.core.v1 import Node, PodTemplateSpec
from controller_manager.api.meta import key_of
from controller_manager.control.history.template import find_equal, template_data
from controller_manager.controllers.apps.daemonset.placement import Fit, Placement


class Compiled:
    """The placement of a template, the nodes that fit it, and the equal revisions.

    A cluster may have thousands of nodes, and a daemon set may want some of them. So
    a sync does not look at all nodes: they are compared with the placement once, and
    again one by one when they change.
    """

    def __init__(self, template: PodTemplateSpec, placement: Placement) -> None:
        """Take the template, and its placement."""
        self._placement = placement
        self._fits: dict[str, Fit] | None = None
        self.seen_changes = 0
        """The position in the log of changed nodes up to which it was read."""

        self.template = template
        self._data: Raw | None = None
        self._is_equal: dict[str, bool] = {}

    def fits(self, nodes: Callable[[], Iterable[Node]]) -> dict[str, Fit]:
        """Return a copy of what the nodes are to the daemon set.

        Nodes where no pod may run are left out. `nodes` is called the first time.
        """
        if self._fits is None:
            found = ((each, self._placement.fit(each)) for each in nodes())
            self._fits = {
                node.metadata.name: fit for node, fit in found if fit is not Fit.NONE
            }
        return dict(self._fits)

    def judge(self, node: Node | None) -> Fit | None:
        """Return the verdict on a node, whatever was noted; `None` for no node."""
        return None if node is None else self._placement.fit(node)

    def has_changed(self, name: str, node: Node | None) -> bool:
        """Note a node's present state; tell whether it is something else now.

        `None` for a node that is gone. False if `fits` was not called yet.
        """
        if self._fits is None:
            return False
        before = self._fits.get(name, Fit.NONE)
        now = Fit.NONE if node is None else self._placement.fit(node)
        if now is Fit.NONE:
            self._fits.pop(name, None)
        else:
            self._fits[name] = now
        return now is not before

    @property
    def data(self) -> Raw:
        """The data of a revision of this template."""
        if self._data is None:
            self._data = template_data(self.template)
        return self._data

    def matching(self, revisions: Iterable[ControllerRevision]) -> Collection[str]:
        """Return the uids of the revisions that hold this template.

        The data of a revision never changes, so it is compared only once.
        """
        known, self._is_equal = self._is_equal, {}
        for each in revisions:
            uid = each.metadata.uid
            if uid not in known:
                known[uid] = find_equal((each,), self.data) is not None
            self._is_equal[uid] = known[uid]
        return {uid for uid, is_equal in self._is_equal.items() if is_equal}


class CompiledTemplates:
    """The compiled template of each daemon set, by key.

    A node that changes is compared with all daemon sets. To decode their templates
    for that would cost 10 µs each.
    """

    def __init__(self, place: Callable[[PodTemplateSpec], Placement]) -> None:
        """Take the function that returns the placement of a template."""
        self._place = place
        self._compiled: dict[str, Compiled] = {}

    def __len__(self) -> int:
        """Return the number of daemon sets that are known."""
        return len(self._compiled)

    def of(self, daemon_set: DaemonSet) -> Compiled:
        """Return the compiled template of a daemon set that is cached."""
        key, template = key_of(daemon_set), daemon_set.spec.template
        compiled = self._compiled.get(key)
        if compiled is None or _differ(compiled.template, template):
            compiled = self._compiled[key] = Compiled(template, self._place(template))
        # A change of the status brings an equal template; the next comparison with it
        # takes no time again.
        compiled.template = template
        return compiled

    def forget(self, key: str) -> None:
        """Drop the template of a daemon set that is gone."""
        self._compiled.pop(key, None)


def _differ(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    return one is not other and one != other
