"""The compiled templates of daemon sets, which are kept from sync to sync."""

from collections.abc import Callable, Collection, Iterable

from msgspec import Raw

from controller_manager.api.apps.v1 import ControllerRevision, DaemonSet
from controller_manager.api.core.v1 import Node, PodTemplateSpec
from controller_manager.api.meta import key_of
from controller_manager.control.history.template import find_equal, template_data

from .nodes import Fit, Placement


class CompiledTemplate:
    """The placement of a template, the nodes that fit it, and the equal revisions.

    A cluster may have thousands of nodes, and a daemon set may need few of them. So a
    sync does not check all nodes. Each node is compared with the placement once, and
    again when it changes.
    """

    def __init__(self, template: PodTemplateSpec, placement: Placement) -> None:
        self._placement = placement
        self._fits: dict[str, Fit] | None = None
        self.seen_changes = 0
        """The position up to which the log of changed nodes was read."""

        self.template = template
        self._data: Raw | None = None
        self._is_equal: dict[str, bool] = {}

    def fits(self, nodes: Callable[[], Iterable[Node]]) -> dict[str, Fit]:
        """Return the fit of each node by name, as a copy.

        Nodes where no pod may run are absent. `nodes` is called only the first time.
        """
        if self._fits is None:
            found = ((each, self._placement.fit(each)) for each in nodes())
            self._fits = {
                node.metadata.name: fit for node, fit in found if fit is not Fit.NONE
            }
        return dict(self._fits)

    def fit_of(self, node: Node | None) -> Fit | None:
        """Compute the fit of a node anew; `None` if there is no node."""
        return None if node is None else self._placement.fit(node)

    def has_changed(self, name: str, node: Node | None) -> bool:
        """Store the fit of a node; tell whether it has changed.

        `node` is `None` if it is gone. Returns False if `fits` was not called yet.
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
        """The data of the revision that records this template."""
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


class TemplateTracker:
    """The compiled template of each daemon set, by key.

    A node that changes is compared with all daemon sets. Decoding a template each time
    would cost 10 µs.
    """

    def __init__(self, place: Callable[[PodTemplateSpec], Placement]) -> None:
        self._place = place
        self._compiled: dict[str, CompiledTemplate] = {}

    def __len__(self) -> int:
        """Return the number of daemon sets with a compiled template."""
        return len(self._compiled)

    def of(self, daemon_set: DaemonSet) -> CompiledTemplate:
        """Return the compiled template of a daemon set that is cached."""
        key, template = key_of(daemon_set), daemon_set.spec.template
        compiled = self._compiled.get(key)
        if compiled is None or _differ(compiled.template, template):
            compiled = self._compiled[key] = CompiledTemplate(
                template, self._place(template)
            )
        # A change of the status brings an equal template. If it is stored, the next
        # comparison is one of identity, which takes no time.
        compiled.template = template
        return compiled

    def forget(self, key: str) -> None:
        """Drop the template of a daemon set that is gone."""
        self._compiled.pop(key, None)


def _differ(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    return one is not other and one != other
