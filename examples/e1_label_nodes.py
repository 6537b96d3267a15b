"""Label the nodes that are cordoned, so that a selector finds them.

    python examples/e1_label_nodes.py
    kubectl cordon NODE
    kubectl get nodes -l example.com/cordoned

`For` names the objects; `reconcile` brings one of them closer to what it should be. It
is called at the start for each node, and again after each change of it. It writes only
what differs: otherwise its own write would cause the next one, without end.
"""

from controller_manager.sdk import (
    DONE,
    DependsOn,
    Descriptor,
    For,
    Outcome,
    Reads,
    Reconciler,
    allow,
    core_v1,
    labels_of,
    run,
)

LABEL = "example.com/cordoned"


class LabelNodes(Reconciler[core_v1.Node]):
    """Keeps the label of each node equal to its `spec.unschedulable`."""

    # Heartbeats change other parts of a node: they cost nothing.
    watches = (
        For(
            core_v1.NODES,
            depends_on=DependsOn("spec.unschedulable", "metadata.labels"),
        ),
    )

    async def reconcile(self, node: core_v1.Node) -> Outcome:
        """Add the label, or remove it."""
        wanted = "true" if node.spec.unschedulable else None
        if labels_of(node).get(LABEL) != wanted:
            patch = {"metadata": {"labels": {LABEL: wanted}}}  # None removes it
            await self.client.patch_exactly(core_v1.NODES, node, patch)
        return DONE


CONTROLLER = Descriptor(
    name="label-nodes",
    load=LabelNodes,
    # A node has more fields than anybody reads; the cache keeps this one.
    reads=(Reads(core_v1.NODES, "spec.unschedulable"),),
    permissions=(allow(core_v1.NODES, "patch"),),
)

if __name__ == "__main__":
    run(CONTROLLER)
