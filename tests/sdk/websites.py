"""A custom resource and its controller, as an author writes them."""

from controller_manager.sdk import (
    DONE,
    NORMAL,
    RECORD_EVENTS,
    APIStruct,
    Column,
    CompleteObject,
    Condition,
    ControllerOptions,
    Definition,
    Descriptor,
    For,
    Outcome,
    Owns,
    Reconciler,
    Resource,
    allow,
    apps_v1,
    option,
    owned_by,
)


class WebsiteSpec(APIStruct, frozen=True):
    """What a website shall be."""

    image: str = "nginx"
    replicas: int = 1


class WebsiteStatus(APIStruct, frozen=True):
    """What a website is."""

    conditions: tuple[Condition, ...] | None = None


class Website(CompleteObject, frozen=True):
    """A website, which is a deployment."""

    spec: WebsiteSpec = WebsiteSpec()
    status: WebsiteStatus = WebsiteStatus()


WEBSITES: Resource[Website] = Resource(
    "example.com", "v1", "websites", "Website", Website
)

DEFINITION = Definition(WEBSITES, columns=(Column("Image", ".spec.image"),))


class WebsiteOptions(ControllerOptions):
    """The options of the controller."""

    prefix: str = option(
        "website-prefix", "string", "web-", "The prefix of deployments."
    )


class WebsiteReconciler(Reconciler[Website]):
    """Gives each website its deployment."""

    watches = (For(WEBSITES), Owns(apps_v1.DEPLOYMENTS))

    async def reconcile(self, website: Website) -> Outcome:
        """Apply the deployment."""
        prefix = self.context.config.of(WebsiteOptions).prefix
        name = f"{prefix}{website.metadata.name}"
        namespace = website.metadata.namespace
        if self.lister(apps_v1.DEPLOYMENTS).get(namespace, name) is None:
            labels = {"website": website.metadata.name}
            container = {"name": "web", "image": website.spec.image}
            deployment = {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "ownerReferences": owned_by(website, WEBSITES),
                },
                "spec": {
                    "replicas": website.spec.replicas,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [container]},
                    },
                },
            }
            await self.client.apply(apps_v1.DEPLOYMENTS, deployment)
            self.recorder.event(WEBSITES, website, NORMAL, "Deployed", f"Made {name}")
        return DONE


CONTROLLER = Descriptor(
    name="website-operator",
    load=WebsiteReconciler,
    options=WebsiteOptions,
    definitions=(DEFINITION,),
    permissions=(
        allow(apps_v1.DEPLOYMENTS, "create", "patch"),
        *RECORD_EVENTS,
    ),
)
