"""What all objects share: metadata, owners, resources and conditions.

A `Resource` is the URL path and the type of the objects of one kind. Pods, nodes, jobs,
claims and deployments have conditions with fields of their own. Upstream: apimachinery,
pkg/apis/meta/v1 and pkg/api/meta.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from .scalars import format_time

_EMPTY: Final[Mapping[str, str]] = {}


class APIStruct(
    Struct,
    frozen=True,
    gc=False,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
):
    """Base of all API types: immutable, not tracked by Python's garbage collector.

    Every field has a default, because an API server may omit any field. Where Go may
    write ``null``, the type has ``| None``.

    >>> class WebsiteSpec(APIStruct, frozen=True):
    ...     image: str = ""
    ...     host_names: tuple[str, ...] | None = None
    >>> WebsiteSpec(image="nginx").host_names is None
    True
    """


class OwnerReference(APIStruct, frozen=True):
    """One owner of an object; the owner with `controller` set manages the object.

    >>> OwnerReference("example.com/v1", "Website", "shop", controller=True).name
    'shop'
    """

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(APIStruct, frozen=True):
    """All of ObjectMeta except managedFields.

    It is complete because a PUT replaces all metadata: every status update would
    delete a field that is missing here. managedFields is the only exception: if it is
    absent, the server keeps its own.

    >>> ObjectMeta(name="shop", namespace="default").labels is None
    True
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class ListMeta(APIStruct, frozen=True):
    """Metadata of a list: its version, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class CompleteObject(APIStruct, frozen=True):
    """Base of the types that have all fields of their API version.

    Only these objects may be written by PUT, because a PUT deletes each field that a
    type lacks. A test compares each of these types with the API.

    >>> class Website(CompleteObject, frozen=True):
    ...     spec: WebsiteSpec = WebsiteSpec()
    >>> Website(metadata=ObjectMeta(name="shop")).spec.image
    'nginx'
    """

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Metadata(Protocol):
    """The part of ObjectMeta that caches and claims need."""

    @property
    def name(self) -> str:
        """Name, unique within the namespace."""

    @property
    def namespace(self) -> str:
        """Namespace, empty for cluster-scoped objects."""

    @property
    def uid(self) -> str:
        """The uid: an object that is deleted and created again has another one."""

    @property
    def resource_version(self) -> str:
        """The version of the object in the API server's store."""

    @property
    def creation_timestamp(self) -> str | None:
        """When the object was created (RFC 3339)."""

    @property
    def deletion_timestamp(self) -> str | None:
        """When the object is to be deleted, `None` if it is not (RFC 3339)."""

    @property
    def labels(self) -> dict[str, str] | None:
        """Labels, `None` for none."""

    @property
    def owner_references(self) -> tuple[OwnerReference, ...] | None:
        """Owners, `None` for none."""

    @property
    def finalizers(self) -> tuple[str, ...] | None:
        """Finalizers, `None` for none."""


class KubeObject(Protocol):
    """An API object: anything with metadata."""

    @property
    def metadata(self) -> Metadata:
        """The object's metadata."""


ObjectT = TypeVar("ObjectT", bound=KubeObject)


class PartialMetadata(APIStruct, frozen=True):
    """The metadata that caches keep of every object: its identity and its owners."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None


class Projection(APIStruct, frozen=True):
    """Base of the types that have only the fields that controllers read.

    These objects may be read, patched and deleted, and created from bytes. They must
    not be written by PUT.

    >>> class Gadget(Projection, frozen=True):
    ...     spec: WebsiteSpec = WebsiteSpec()
    >>> GADGETS = Resource("example.com", "v1", "gadgets", "Gadget", Gadget)
    """

    metadata: PartialMetadata = PartialMetadata()


class PartialObject(Projection, frozen=True):
    """An object of any kind of which only `PartialMetadata` is read."""


class ObjectList(APIStruct, Generic[ObjectT], frozen=True):
    """A page of objects of one type."""

    metadata: ListMeta = ListMeta()
    items: list[ObjectT] | None = None


class StatusCause(APIStruct, frozen=True):
    """One cause of a failure, with the field that it is about."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(APIStruct, frozen=True):
    """The object that a failure is about, and the causes of the failure."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int = 0


class Status(APIStruct, frozen=True):
    """The API server's answer when there is no object to return."""

    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


def key_of(obj: KubeObject) -> str:
    """Return ``namespace/name``, or ``name`` for a cluster-scoped object.

    >>> key_of(website)
    'default/shop'
    """
    metadata = obj.metadata
    if metadata.namespace:
        return f"{metadata.namespace}/{metadata.name}"
    return metadata.name


def split_key(key: str) -> tuple[str, str]:
    """Return namespace (may be empty) and name of a key that `key_of` returned."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def group_of_key(key: str) -> str:
    """Return the namespace of a key; that of a cluster-scoped object is its own."""
    return key.partition("/")[0]


def labels_of(obj: KubeObject) -> Mapping[str, str]:
    """Return the labels of an object, empty for none.

    >>> labels_of(website).get("team", "nobody")
    'nobody'
    """
    return obj.metadata.labels or _EMPTY


def annotations_of(metadata: ObjectMeta) -> Mapping[str, str]:
    """Return the annotations, empty for none."""
    return metadata.annotations or _EMPTY


def is_deleting(obj: KubeObject) -> bool:
    """Tell whether the object is being deleted (it has a deletionTimestamp).

    >>> is_deleting(website)
    False
    """
    return bool(obj.metadata.deletion_timestamp)


def resource_version_number(resource_version: str) -> int:
    """Return a resource version as a number that can be compared.

    Versions of one resource are ordered as integers since Kubernetes 1.35
    (KEP-5504). An empty version, or one that is no number, counts as 0, the oldest.
    """
    return int(resource_version) if resource_version.isdecimal() else 0


def raw_json(value: Any) -> Raw:  # noqa: ANN401 - any JSON value
    """Return `value` as JSON bytes, for a field that is only copied."""
    return Raw(msgspec.json.encode(value))


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """Return the reference to the managing owner, `None` for none (GetControllerOf)."""
    for reference in obj.metadata.owner_references or ():
        if reference.controller:
            return reference
    return None


def is_controlled_by(obj: KubeObject, owner: KubeObject) -> bool:
    """Tell whether `owner` manages `obj`, by the owner's uid."""
    reference = controller_of(obj)
    return reference is not None and reference.uid == owner.metadata.uid


def controller_reference(owner: KubeObject, resource: "AnyResource") -> OwnerReference:
    """Return a reference that makes `owner` the manager (NewControllerRef)."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def owned_by(owner: KubeObject, resource: "AnyResource") -> tuple[OwnerReference, ...]:
    """Return the owner references of an object that `owner` alone manages.

    Once the owner is gone, the garbage collector deletes the object; `Owns` enqueues
    the owner when the object changes.

    >>> metadata = ObjectMeta(name="shop", owner_references=owned_by(website, WEBSITES))
    >>> metadata.owner_references[0].kind, metadata.owner_references[0].controller
    ('Website', True)
    """
    return (controller_reference(owner, resource),)


_NO_PATH_SEGMENT: Final = re.compile(r"\.\.?|.*[/%].*", re.DOTALL)


class InvalidPathSegment(ValueError):
    """A name or namespace that would change the meaning of the URL path."""


def segment(name: str, what: str) -> str:
    """Return `name` if it may be one segment of a URL path; raise an error if not.

    Names come from objects that users write: an owner reference may name
    ``kube-system/services/https:ui:443/proxy/restart``. The rules are those of
    IsValidPathSegmentName (apimachinery pkg/api/validation/path/name.go).
    """
    if _NO_PATH_SEGMENT.fullmatch(name):
        msg = f"invalid {what} {name!r}: it may not be '.' or '..', nor have '/' or '%'"
        raise InvalidPathSegment(msg)
    return name


_CLUSTER: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Resource(Generic[ObjectT]):
    """A resource of the API and the type that its objects decode to.

    With `metadata_only`, requests ask the API server only for metadata
    (PartialObjectMetadata). The `field_selector` restricts which objects are listed
    and watched; empty means all. A `cluster` is another one than that of the process.

    >>> WEBSITES = Resource("example.com", "v1", "websites", "Website", Website)
    >>> WEBSITES.path("default", "shop", "status")
    '/apis/example.com/v1/namespaces/default/websites/shop/status'
    >>> WEBSITES.in_cluster("edge").group_resource
    'websites.example.com in edge'
    """

    group: str
    version: str
    plural: str
    kind: str
    type: type[ObjectT]
    namespaced: bool = True
    metadata_only: bool = False
    field_selector: str = ""
    cluster: str = ""

    def in_cluster(self, name: str) -> "Resource[ObjectT]":
        """Return the same resource in another cluster, of which `name` is a DNS label.

        The process reaches that cluster by its flag ``--kubeconfig-NAME``. Raises
        ValueError for another name.
        """
        if not _CLUSTER.fullmatch(name):
            msg = f"{name!r} is no name of a cluster: use lower-case letters and digits"
            raise ValueError(msg)
        return replace(self, cluster=name)

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``deployments.apps``, or ``pods`` for the core group.

        One of another cluster names that: ``pods in edge``.
        """
        name = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{name} in {self.cluster}" if self.cluster else name

    def may_select(self, obj: KubeObject) -> bool:
        """Tell whether a watch with this `field_selector` may show `obj`.

        It can evaluate only the selectors ``metadata.name=NAME`` and ``type=TYPE``. For
        other selectors the answer is no.
        """
        field, _, wanted = self.field_selector.partition("=")
        match field:
            case "":
                return True
            case "metadata.name":
                return obj.metadata.name == wanted
            case "type":
                return getattr(obj, "type", None) == wanted
            case _:
                return False

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, object or subresource.

        Raises InvalidPathSegment if the namespace or name is not a path segment.
        """
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", segment(namespace, "namespace")]
        parts.append(self.plural)
        if name:
            parts.append(segment(name, "name"))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


AnyResource = Resource[Any]

BUILT_IN_GROUPS: Final = frozenset(
    (
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    )
)
"""The groups of Kubernetes itself. The API server takes strategic merge patches of
their objects, and of no custom resource."""


@cache
def metadata_of(resource: AnyResource) -> Resource[PartialObject]:
    """Return the resource of which requests ask only for the metadata of objects.

    For the answer to a write of which a controller reads at most the name, the uid and
    the version.
    """
    return replace(resource, type=PartialObject, metadata_only=True)


class Condition(APIStruct, frozen=True):
    """One condition; the API requires a reason and a message, which may be empty.

    >>> Condition(type="Ready", status="False", reason="NoCertificate").message
    ''
    """

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class TypedCondition(Protocol):
    """A condition of any form."""

    @property
    def type(self) -> str:
        """The type, which only one condition of an object has."""

    @property
    def status(self) -> str:
        """True, False or Unknown."""


ConditionT = TypeVar("ConditionT", bound=TypedCondition)


def find_condition(
    conditions: Iterable[ConditionT] | None, name: str
) -> ConditionT | None:
    """Return the condition of a type, `None` if there is none (FindStatusCondition)."""
    for each in conditions or ():
        if each.type == name:
            return each
    return None


def true_condition(
    conditions: Iterable[ConditionT] | None, name: str
) -> ConditionT | None:
    """Return the condition of a type if its status is True, else `None`."""
    found = find_condition(conditions, name)
    return found if found is not None and found.status == "True" else None


def set_condition(
    conditions: tuple[Condition, ...] | None,
    new: Condition,
    now: datetime | None = None,
) -> tuple[Condition, ...]:
    """Return the conditions with `new` in the place of the one of its type.

    The time of the transition stays if the status does (SetStatusCondition). If `new`
    has no such time, it is `now`.

    >>> ready = Condition(type="Ready", status="True", reason="Deployed")
    >>> conditions = set_condition(None, ready, clock.now())
    >>> conditions[0].last_transition_time
    '2026-01-01T00:00:00Z'
    """
    if now is not None and new.last_transition_time is None:
        new = msgspec.structs.replace(new, last_transition_time=format_time(now))
    old = find_condition(conditions, new.type)
    if old is None:
        return (*(conditions or ()), new)
    if old.status == new.status and old.last_transition_time:
        new = msgspec.structs.replace(
            new, last_transition_time=old.last_transition_time
        )
    return tuple(new if each is old else each for each in conditions or ())
