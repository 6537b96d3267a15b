"""The definition of a custom resource, declared beside its class."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource, CompleteObject, Resource

from .schema import DefinitionError, schema_of

HubT = TypeVar("HubT", bound=CompleteObject)
SpokeT = TypeVar("SpokeT", bound=CompleteObject)

_STEP: Final = re.compile(r"\.([A-Za-z_][\w-]*)|\[[^\[\]]*\]")
"""One step of a JSON path: a field, or an item."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``; the type follows from the class.

    Columns with a `priority` above 0 are shown with ``-o wide`` only.

    >>> Column("Image", ".spec.image", priority=1).json_path
    '.spec.image'
    """

    name: str
    json_path: str
    type: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """The fields that ``kubectl scale`` and autoscalers read and write.

    An autoscaler needs the path of a text with the label selector of the pods.

    >>> Scale(status_replicas_path=".status.readyReplicas").spec_replicas_path
    '.spec.replicas'
    """

    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"
    label_selector_path: str = ""


@dataclass(frozen=True, slots=True)
class Spoke(Generic[SpokeT, HubT]):
    """A version whose objects a webhook converts, from and to the stored version.

    The operator serves the webhook. The functions return new objects; the metadata may
    be left out, and then stays as it is. An exception is an error of that object alone,
    and its text is what the user reads.

    >>> class OldWebsite(CompleteObject, frozen=True):
    ...     image: str = ""
    >>> OLD = Resource("example.com", "v1beta1", "websites", "Website", OldWebsite)
    >>> def to_hub(old: OldWebsite) -> Website:
    ...     return Website(spec=WebsiteSpec(image=old.image))
    >>> def from_hub(website: Website) -> OldWebsite:
    ...     return OldWebsite(image=website.spec.image)
    >>> DEFINITION = Definition(WEBSITES, versions=(Spoke(OLD, to_hub, from_hub),))
    >>> DEFINITION.manifest()["spec"]["conversion"]["strategy"]
    'Webhook'

    Upstream: Hub and Convertible of controller-runtime's pkg/conversion.
    """

    resource: Resource[SpokeT]
    to_hub: Callable[[SpokeT], HubT]
    from_hub: Callable[[HubT], SpokeT]


@dataclass(frozen=True, slots=True)
class Definition(Generic[HubT]):
    """What the API server must know of a custom resource: a CustomResourceDefinition.

    The schema is made from the annotations of the class. Fields without a default are
    required; defaults that are not empty are written by the API server; constraints of
    `Meta` hold; docstrings are descriptions. A class with a `status` has the
    subresource.

    - `resource`: the version in which objects are stored, which is the hub.
    - `versions`: other versions that are served, each with a class of its own. A
      `Spoke` has functions that convert; objects of a resource are not converted:
      fields of the same name have the same meaning.
    - `scale`: the fields of the scale subresource, if there is one.

    >>> DEFINITION = Definition(
    ...     WEBSITES, columns=(Column("Image", ".spec.image"),), short_names=("ws",)
    ... )
    >>> manifest = DEFINITION.manifest()
    >>> manifest["metadata"]["name"], manifest["spec"]["names"]["shortNames"]
    ('websites.example.com', ['ws'])
    """

    resource: Resource[HubT]
    columns: tuple[Column, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    scale: Scale | None = None
    versions: tuple[AnyResource | Spoke[Any, HubT], ...] = ()

    @property
    def is_converted(self) -> bool:
        """True if a webhook converts objects."""
        return any(isinstance(each, Spoke) for each in self.versions)

    def resources(self) -> Iterator[AnyResource]:
        """Yield all versions; the stored one comes first."""
        yield self.resource
        for each in self.versions:
            yield each.resource if isinstance(each, Spoke) else each

    def conversion(self, client_config: JSON) -> JSON:
        """Return the part that says where the webhook is that converts objects."""
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client_config}
        return {"strategy": "Webhook", "webhook": webhook}

    def manifest(self, service: str = "webhooks", namespace: str = "default") -> JSON:
        """Return the CustomResourceDefinition.

        The service is that of a webhook that converts objects; once the operator runs,
        it writes where it really is. Raises DefinitionError if a class has no schema,
        or no field of a path.
        """
        resource = self.resource
        names = {
            "kind": resource.kind,
            "plural": resource.plural,
            "singular": resource.kind.lower(),
            "shortNames": self.short_names,
            "categories": self.categories,
        }
        manifest: JSON = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": resource.group_resource},
            "spec": {
                "group": resource.group,
                "scope": "Namespaced" if resource.namespaced else "Cluster",
                "names": {key: name for key, name in names.items() if name},
                "versions": list(self._versions()),
            },
        }
        if self.is_converted:
            place = {"service": {"namespace": namespace, "name": service}}
            manifest["spec"]["conversion"] = self.conversion(place)
        # No part occurs twice as one object: YAML would write the second as an alias.
        written: JSON = msgspec.json.decode(msgspec.json.encode(manifest))
        return written

    def _versions(self) -> Iterator[JSON]:
        seen = set()
        for each in self.resources():
            same = (each.group_resource, each.kind, each.namespaced)
            stored = self.resource
            if same != (stored.group_resource, stored.kind, stored.namespaced):
                other = "has another group, name, kind or scope than the first version"
                self._fail(f"{each.version} {other}; give it the same")
            if each.version in seen:
                self._fail(f"{each.version} occurs twice; name each version once")
            seen.add(each.version)
            yield self._version(each)

    def _version(self, resource: AnyResource) -> JSON:
        if not issubclass(resource.type, CompleteObject):
            name = resource.type.__name__
            self._fail(f"{name} has some of the fields; make it a CompleteObject")
        schema = schema_of(resource.type)
        subresources: JSON = {"status": {}} if "status" in schema["properties"] else {}
        if self.scale is not None:
            subresources["scale"] = self._scale(self.scale, schema, resource)
        columns = [self._column(each, schema, resource) for each in self.columns]
        return {
            "name": resource.version,
            "served": True,
            "storage": resource is self.resource,
            **({"subresources": subresources} if subresources else {}),
            **({"additionalPrinterColumns": columns} if columns else {}),
            "schema": {"openAPIV3Schema": schema},
        }

    def _scale(self, scale: Scale, schema: JSON, resource: AnyResource) -> JSON:
        paths = {
            "specReplicasPath": scale.spec_replicas_path,
            "statusReplicasPath": scale.status_replicas_path,
            "labelSelectorPath": scale.label_selector_path,
        }
        for key, path in paths.items():
            wanted = "string" if key == "labelSelectorPath" else "integer"
            if path and self._type_at(path, schema, key, resource) != wanted:
                self._fail(f"{key}: {path} must be of the type {wanted}; change it")
        return {key: path for key, path in paths.items() if path}

    def _column(self, column: Column, schema: JSON, resource: AnyResource) -> JSON:
        path = column.json_path
        found = self._type_at(path, schema, repr(column.name), resource)
        written = {
            "name": column.name,
            "type": column.type or found,
            "jsonPath": path,
            "description": column.description,
            "priority": column.priority,
        }
        return {key: each for key, each in written.items() if each}

    def _type_at(
        self, path: str, schema: JSON, what: str, resource: AnyResource
    ) -> str:
        """Return the type of a column with the values of a path."""
        if path.startswith(".metadata."):
            return "date" if path.endswith("Timestamp") else "string"
        if not path.startswith("."):
            self._fail(f"{what}: {path!r} is no path; write one like .spec.image")
        at = 0
        while step := _STEP.match(path, at):
            fields = schema.get("properties", {})
            is_known = "type" in schema and "additionalProperties" not in schema
            if step[1] and is_known and step[1] not in fields:
                known = ", ".join(fields) or "no fields"
                name = resource.type.__name__
                has = f"{path[:at] or name} has {known}"
                self._fail(f"{what}: {name} has no {path[: step.end()]}; {has}")
            inner = fields.get(step[1]) if step[1] else schema.get("items")
            schema = inner or schema.get("additionalProperties") or {}
            at = step.end()
        if schema.get("format") == "date-time":
            return "date"
        kind = str(schema.get("type"))
        return kind if kind in ("boolean", "integer", "number") else "string"

    def _fail(self, problem: str) -> NoReturn:
        msg = f"{self.resource.group_resource}: {problem}"
        raise DefinitionError(msg)
