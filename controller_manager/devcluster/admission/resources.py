"""The admission plugins about namespaces, owners, classes, claims and other kinds."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.control.certificates import request
from controller_manager.devcluster.apiserver.admission import Operation, Write
from controller_manager.devcluster.apiserver.security import Attributes, Authorizer
from controller_manager.devcluster.registry.storage import set_default_class
from controller_manager.devcluster.scheme.statuses import forbidden, not_found

from .writes import (
    CLAIMS,
    CREATE,
    DELETE,
    UPDATE,
    BuiltInPlugin,
    Parts,
    annotations_of,
    object_of,
    refused,
    rule,
    spec_of,
)

# The admission plugin NamespaceLifecycle.

_NAMESPACES: Final = "namespaces"
_IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))
_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")
"""Access reviews must not disclose the names of existing namespaces."""


@rule(
    "NamespaceLifecycle", CREATE | UPDATE | DELETE, changes=True, sees_own_writes=True
)
def namespace_lifecycle(write: Write, parts: Parts) -> None:
    """Protect the system namespaces, and refuse objects in terminating namespaces.

    It refuses new objects in a namespace that is missing or being deleted.
    """
    kind = write.kind
    if (kind.group, kind.plural) == ("", _NAMESPACES):
        if write.operation is Operation.DELETE and write.name in _IMMORTAL:
            why = "this namespace may not be deleted"
            raise forbidden("", _NAMESPACES, write.name, why)
        return
    if not kind.namespaced or write.operation is Operation.DELETE:
        return
    if (kind.group, kind.plural) == _REVIEWS:
        return
    stored = parts.storage.collection(_NAMESPACES).get(("", write.namespace))
    if stored is None:
        raise not_found("", _NAMESPACES, write.namespace)
    if write.operation is Operation.CREATE:
        _check_alive(write, stored.obj)


def _check_alive(write: Write, namespace: JSON) -> None:
    if namespace.get("status", {}).get("phase") != "Terminating":
        return
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {write.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = (
        f"unable to create new content in namespace {write.namespace} because it is "
        "being terminated"
    )
    kind, name = write.kind, write.shown_name
    raise forbidden(kind.group, kind.plural, name, why, [cause])


# The admission plugin OwnerReferencesPermissionEnforcement.

_REASON: Final = ": , <nil>"
"""Upstream's text for an authorizer without a reason and without an error."""

_EXEMPT: Final = frozenset(
    (
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    )
)


@rule("OwnerReferencesPermissionEnforcement", CREATE | UPDATE)
def owner_references_permission_enforcement(write: Write, parts: Parts) -> None:
    """Refuse changed owners by a user who may not delete the object.

    For ``blockOwnerDeletion``, the user must also be able to set its finalizers.
    """
    kind, obj = write.kind, object_of(write)
    new, old = _owners(obj), _owners(write.old or {})
    if new == old or (kind.group, kind.plural) in _EXEMPT:
        return
    if write.operation is not Operation.CREATE:
        attributes = Attributes(
            "delete",
            group=kind.group,
            resource=kind.plural,
            subresource=write.subresource,
            namespace=write.namespace,
            name=write.name,
        )
        why = "cannot set an ownerRef on a resource you can't delete"
        _check_owners_right(parts, write, attributes, why)
    for owner in _newly_blocking(new, old):
        _check_owner(parts, write, owner)


def _check_owner(parts: Parts, write: Write, owner: JSON) -> None:
    version, name = owner.get("apiVersion", ""), owner.get("kind", "")
    found = [
        each
        for each in parts.kinds()
        if (each.api_version, each.kind) == (version, name)
    ]
    if not found:
        raise refused(
            write,
            "cannot set blockOwnerDeletion in this case because cannot find "
            f"RESTMapping for APIVersion {version} Kind {name}: no matches for "
            f'kind "{name}" in version "{version}"',
        )
    for kind in found:
        attributes = Attributes(
            "update",
            group=kind.group,
            resource=kind.plural,
            subresource="finalizers",
            namespace=write.namespace if kind.namespaced else "",
            name=owner.get("name", ""),
        )
        why = (
            "cannot set blockOwnerDeletion if an ownerReference refers to a "
            "resource you can't set finalizers on"
        )
        _check_owners_right(parts, write, attributes, why)


def _check_owners_right(
    parts: Parts, write: Write, attributes: Attributes, why: str
) -> None:
    if not parts.authorizer.allows(write.user, attributes):
        raise refused(write, why + _REASON)


def _owners(obj: JSON) -> list[JSON]:
    found: list[JSON] = (obj.get("metadata") or {}).get("ownerReferences") or []
    return found


def _newly_blocking(new: list[JSON], old: list[JSON]) -> Iterator[JSON]:
    """Yield the owners that newly have ``blockOwnerDeletion``."""
    before = {each.get("uid") for each in old if each.get("blockOwnerDeletion")}
    for each in new:
        if each.get("blockOwnerDeletion") and each.get("uid") not in before:
            yield each


# The admission plugin DefaultIngressClass.

_NETWORKING: Final = "networking.k8s.io"
_CLASS: Final = "kubernetes.io/ingress.class"
_IS_DEFAULT: Final = "ingressclass.kubernetes.io/is-default-class"


@rule("DefaultIngressClass", CREATE, (_NETWORKING, "ingresses", ""), changes=True)
def default_ingress_class(write: Write, parts: Parts) -> None:
    """Give the default class to an ingress that names no class."""
    annotations, spec = annotations_of(object_of(write)), spec_of(write)
    if spec.get("ingressClassName") is not None or _CLASS in annotations:
        return
    defaults = [
        stored.obj["metadata"]["name"]
        for stored in parts.storage.collection("ingressclasses.networking.k8s.io")
        if annotations_of(stored.obj).get(_IS_DEFAULT) == "true"
    ]
    if len(defaults) > 1:
        found = f"{len(defaults)} default IngressClasses were found"
        raise refused(write, f"Internal error occurred: {found}, only 1 allowed")
    if defaults:
        spec["ingressClassName"] = defaults[0]


# The admission plugin DefaultStorageClass.


@rule("DefaultStorageClass", CREATE, *CLAIMS, changes=True, sees_own_writes=True)
def default_storage_class(write: Write, parts: Parts) -> None:
    """Give the default class to a claim that names no class."""
    set_default_class(object_of(write), parts.storage)


# The admission plugin PersistentVolumeClaimResize.

_NOT_EXPANDABLE: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that "
    "provisions the pvc must support resize"
)


@rule("PersistentVolumeClaimResize", UPDATE, *CLAIMS, sees_own_writes=True)
def persistent_volume_claim_resize(write: Write, parts: Parts) -> None:
    """Let a claim grow only if its class allows that."""
    new = object_of(write)
    if write.old is None or _size(new) <= _size(write.old):
        return
    if write.old.get("status", {}).get("phase") != "Bound":
        raise refused(write, "Only bound persistent volume claims can be expanded")
    name = new["spec"].get("storageClassName") or ""
    stored = parts.storage.collection("storageclasses.storage.k8s.io").get(("", name))
    if stored is None or not stored.obj.get("allowVolumeExpansion"):
        raise refused(write, _NOT_EXPANDABLE)


def _size(claim: JSON) -> Any:
    resources = claim["spec"].get("resources") or {}
    return parse_quantity((resources.get("requests") or {}).get("storage", "0"))


# The admission plugins that add a finalizer to new objects.

_POD_GROUPS: Final = ("scheduling.k8s.io", "podgroups")
_FINALIZERS: Final = {
    ("", "persistentvolumeclaims"): "kubernetes.io/pvc-protection",
    ("", "persistentvolumes"): "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
    _POD_GROUPS: "scheduling.k8s.io/podgroup-protection",
}


def _protect(write: Write, _: Parts) -> None:
    finalizer = _FINALIZERS[write.kind.group, write.kind.plural]
    metadata = object_of(write)["metadata"]
    given = metadata.get("finalizers") or []
    if finalizer not in given:
        metadata["finalizers"] = [*given, finalizer]


def _protection(
    name: str, group_resources: Iterable[tuple[str, str]]
) -> type[BuiltInPlugin]:
    targets = [(*each, "") for each in group_resources]
    return rule(name, CREATE, *targets, changes=True, sees_own_writes=True)(_protect)


_PROTECTIONS = (
    _protection("StorageObjectInUseProtection", _FINALIZERS.keys() - {_POD_GROUPS}),
    _protection("PodGroupProtection", [_POD_GROUPS]),
)


# The admission plugins about certificates (plugin/pkg/admission/certificates).

_CERTIFICATES: Final = "certificates.k8s.io"
_REQUESTS: Final = "certificatesigningrequests"
_BUNDLES: Final = "clustertrustbundles"
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_MASTERS: Final = "system:masters"


@rule("CertificateApproval", UPDATE, (_CERTIFICATES, _REQUESTS, "approval"))
def certificate_approval(write: Write, parts: Parts) -> None:
    """Refuse an approval by a user without the verb ``approve`` on the signer."""
    _check_signer(parts.authorizer, write, "approve")


@rule("CertificateSigning", UPDATE, (_CERTIFICATES, _REQUESTS, "status"))
def certificate_signing(write: Write, parts: Parts) -> None:
    """Refuse a certificate by a user without the verb ``sign`` on the signer."""
    before = (write.old or {}).get("status") or {}
    after = object_of(write).get("status") or {}
    names = ("certificate", "conditions")
    if any((before.get(name) or None) != (after.get(name) or None) for name in names):
        _check_signer(parts.authorizer, write, "sign")


@rule("CertificateSubjectRestriction", CREATE, (_CERTIFICATES, _REQUESTS, ""))
def certificate_subject_restriction(write: Write, _: Parts) -> None:
    """Refuse requests for a client certificate of an administrator."""
    spec = object_of(write).get("spec", {})
    if spec.get("signerName") != _CLIENT:
        return
    try:
        parsed = request.parse_request(spec.get("request"))
    except request.InvalidRequest:
        return  # the validation refuses the request
    if _MASTERS in parsed.organizations:
        why = f"use of {_CLIENT} signer with {_MASTERS} group is not allowed"
        raise refused(write, why)


@rule("ClusterTrustBundleAttest", CREATE | UPDATE, (_CERTIFICATES, _BUNDLES, ""))
def cluster_trust_bundle_attest(write: Write, parts: Parts) -> None:
    """Refuse a trust bundle by a user without the verb ``attest`` on the signer."""
    spec = object_of(write).get("spec", {})
    signer = spec.get("signerName", "")
    if not signer or (write.old and write.old.get("spec", {}) == spec):
        return
    if not _may(parts.authorizer, write, "attest", signer):
        raise refused(write, f'user not permitted to attest for signerName "{signer}"')


def _check_signer(authorizer: Authorizer, write: Write, verb: str) -> None:
    """Raise Refusal unless the user has the verb on the signer of the request."""
    signer = (write.old or object_of(write)).get("spec", {}).get("signerName", "")
    if not _may(authorizer, write, verb, signer):
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise refused(write, why)


def _may(authorizer: Authorizer, write: Write, verb: str, signer: str) -> bool:
    """Tell whether a user has a verb on a signer, or on all signers of its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    return any(
        authorizer.allows(
            write.user,
            Attributes(verb, group=_CERTIFICATES, resource="signers", name=name),
        )
        for name in names
    )


PLUGINS: Final = (
    *_PROTECTIONS,
    certificate_approval,
    certificate_signing,
    certificate_subject_restriction,
    cluster_trust_bundle_attest,
    default_ingress_class,
    default_storage_class,
    namespace_lifecycle,
    owner_references_permission_enforcement,
    persistent_volume_claim_resize,
)
