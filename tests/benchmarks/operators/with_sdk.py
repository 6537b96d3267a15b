"""The operator for widgets, written with the SDK of this project."""

from controller_manager.sdk import (
    DONE,
    APIStruct,
    CompleteObject,
    Definition,
    Descriptor,
    For,
    ObjectMeta,
    Outcome,
    Owns,
    Reconciler,
    Resource,
    allow,
    core_v1,
    is_deleting,
    owned_by,
    run,
)


class WidgetSpec(APIStruct, frozen=True):
    """What the user wants."""

    color: str = ""
    replicas: int = 1


class WidgetStatus(APIStruct, frozen=True):
    """The generation of the spec that was brought about last."""

    observed_generation: int = 0


class Widget(CompleteObject, frozen=True):
    """A widget, which has a config map of its name."""

    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


WIDGETS: Resource[Widget] = Resource("example.com", "v1", "widgets", "Widget", Widget)


class WidgetReconciler(Reconciler[Widget]):
    """Keeps the config map and the status of each widget."""

    watches = (For(WIDGETS), Owns(core_v1.CONFIG_MAPS))
    workers = 10

    async def reconcile(self, widget: Widget) -> Outcome:
        """Create the config map, or put it right; then write the status."""
        if is_deleting(widget):
            return DONE
        metadata, spec = widget.metadata, widget.spec
        data = {"color": spec.color, "replicas": str(spec.replicas)}
        found = self.lister(core_v1.CONFIG_MAPS).get(metadata.namespace, metadata.name)
        if found is None:
            await self.client.create(core_v1.CONFIG_MAPS, config_map_of(widget, data))
        elif found.data != data:
            patch = {"data": data}
            await self.client.patch_exactly(core_v1.CONFIG_MAPS, found, patch)
        if widget.status.observed_generation != metadata.generation:
            status = {"status": {"observedGeneration": metadata.generation}}
            await self.client.patch_exactly(
                WIDGETS, widget, status, subresource="status", same_version=True
            )
        return DONE


def config_map_of(widget: Widget, data: dict[str, str]) -> core_v1.ConfigMap:
    """Return the config map of a widget."""
    name = widget.metadata.name
    metadata = ObjectMeta(
        namespace=widget.metadata.namespace,
        name=name,
        labels={"example.com/widget": name},
        owner_references=owned_by(widget, WIDGETS),
    )
    return core_v1.ConfigMap(metadata=metadata, data=data)


CONTROLLER = Descriptor(
    name="widget-operator",
    load=WidgetReconciler,
    definitions=(Definition(WIDGETS),),
    permissions=(
        allow(WIDGETS, "patch", subresource="status"),
        allow(core_v1.CONFIG_MAPS, "create", "patch"),
    ),
)

if __name__ == "__main__":
    run(CONTROLLER)
