"""The volume with the token of a pod's service account (TokenVolumeSource)."""

import asyncio
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.control.hashes import safe_encode
from controller_manager.devcluster.apiserver.admission import (
    Operation,
    Plugin,
    Submission,
    Write,
)
from controller_manager.devcluster.apiserver.kind import Pending
from controller_manager.devcluster.storage import Storage

from .writes import PODS, annotations_of, object_of, refused, spec_of

# The volume with the token of a pod's service account (TokenVolumeSource).

_PREFIX: Final = "kube-api-access-"
_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_LIFETIME: Final = 3607
"""Seconds that a token is valid; upstream recognizes mounted tokens by this number."""


def mount_token(spec: JSON, suffix: Callable[[], str]) -> None:
    """Mount the token into each container without another mount at its path.

    `suffix` makes the end of the volume's name.
    """
    containers = [
        container
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if not _has_mount(container)
    ]
    volumes = spec.get("volumes") or []
    names = [each.get("name", "") for each in volumes]
    found = next((each for each in names if each.startswith(_PREFIX)), None)
    if not containers:
        return
    name = found or _PREFIX + suffix()
    for container in containers:
        mount = {"name": name, "readOnly": True, "mountPath": _PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    if found is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _source()}]


def _has_mount(container: JSON) -> bool:
    mounts = container.get("volumeMounts") or ()
    return any(each.get("mountPath") == _PATH for each in mounts)


def _source() -> JSON:
    namespace = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _LIFETIME, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
        ],
        "defaultMode": 420,
    }


# The admission plugin ServiceAccount: the identity of a new pod.

_ACCOUNTS: Final = "serviceaccounts"
_DEFAULT: Final = "default"
_MIRROR: Final = "kubernetes.io/config.mirror"
_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_PATIENCE: Final = 1.5
"""Seconds that a pod waits for the default account of its namespace.

Upstream looks ten times, every 100 to 200 ms: a controller makes this account.
"""


class ServiceAccount(Plugin):
    """Gives a new pod a service account that exists, its token and its pull secrets."""

    name: ClassVar = "ServiceAccount"
    targets: ClassVar = PODS
    mutates: ClassVar = frozenset((Operation.CREATE,))
    validates: ClassVar = frozenset((Operation.CREATE,))

    def __init__(self, storage: Storage, rng: random.Random) -> None:
        self._storage = storage
        self._rng = rng

    def mutate(self, write: Write) -> None:
        """Fill in the account, token and pull secrets; raises Refusal and Pending."""
        if _MIRROR in annotations_of(object_of(write)):
            return
        spec = spec_of(write)
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = spec.get("serviceAccount") or _DEFAULT
        spec["serviceAccount"] = spec["serviceAccountName"]
        account = self._account(write, spec["serviceAccountName"])
        if _mounts_token(spec, account):
            mount_token(spec, partial(self._suffix, write.submission))
        if not spec.get("imagePullSecrets") and (
            secrets := account.get("imagePullSecrets")
        ):
            spec["imagePullSecrets"] = [dict(each) for each in secrets]

    def validate(self, write: Write) -> None:
        """Raise Refusal for forbidden references of the pod."""
        spec = spec_of(write)
        if _MIRROR in annotations_of(object_of(write)):
            problem = _wrong_in_mirror(spec)
        else:
            account = self._account(write, spec.get("serviceAccountName", ""))
            enforces = annotations_of(account).get(_ENFORCE) in _TRUE
            problem = next(_foreign_secrets(spec, account), "") if enforces else ""
        if problem:
            raise refused(write, problem)

    def _account(self, write: Write, name: str) -> JSON:
        """Return a service account; raises Pending while a controller may create it."""
        key = (write.namespace, name)
        stored = self._storage.collection(_ACCOUNTS).get(key)
        if stored is not None:
            return stored.obj
        submission = write.submission
        if submission and name == _DEFAULT and not submission.recall(_ACCOUNTS):
            raise Pending(partial(self._wait_for, submission, key))
        why = f"error looking up service account {write.namespace}/{name}: "
        raise refused(write, f'{why}serviceaccount "{name}" not found')

    async def _wait_for(self, submission: Submission, key: tuple[str, str]) -> None:
        accounts = self._storage.collection(_ACCOUNTS)
        watcher = accounts.watch(accounts.version)
        try:
            async with asyncio.timeout(_PATIENCE):
                while accounts.get(key) is None:
                    await watcher.wait()
                    watcher.take()
        except TimeoutError:
            submission.remember(_ACCOUNTS, value=True)
        finally:
            watcher.close()

    def _suffix(self, submission: Submission | None) -> str:
        """Return the end of a volume's name, the same in all attempts of a request."""

        def make() -> str:
            return safe_encode(self._rng.randrange(10**4, 10**5))

        return submission.once("token volume", make) if submission else make()


def _mounts_token(spec: JSON, account: JSON) -> bool:
    """Tell whether a pod gets its token: its field decides before the account's."""
    field = "automountServiceAccountToken"
    wanted = spec.get(field, account.get(field))
    return True if wanted is None else bool(wanted)


def _wrong_in_mirror(spec: JSON) -> str:
    """Return the error for a forbidden reference of a mirror pod."""
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if spec.get("imagePullSecrets") or any(True for _ in _secrets(spec)):
        return "a mirror pod may not reference secrets"
    sources = [
        source
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    if any("serviceAccountToken" in each for each in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def _secrets(spec: JSON) -> Iterator[tuple[str, str]]:
    """Yield the secrets that a pod uses, each after the beginning of a message."""
    for volume in spec.get("volumes") or ():
        if name := (volume.get("secret") or {}).get("secretName"):
            yield f'volume with secret.secretName="{name}"', name
    for field, called in (
        ("initContainers", "init container"),
        ("containers", "container"),
    ):
        for container in spec.get(field) or ():
            about = f"{called} {container.get('name', '')}"
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
                if name := reference.get("name"):
                    what = f"with envVar {variable.get('name', '')} referencing "
                    yield f'{about} {what}secret.secretName="{name}"', name
            for source in container.get("envFrom") or ():
                if name := (source.get("secretRef") or {}).get("name"):
                    what = f'with envFrom referencing secret.secretName="{name}"'
                    yield f"{about} {what}", name


def _foreign_secrets(spec: JSON, account: JSON) -> Iterator[str]:
    """Yield why a pod may not use a secret that its account does not list."""
    who = account["metadata"]["name"]
    mountable = {each.get("name") for each in account.get("secrets") or ()}
    for what, secret in _secrets(spec):
        if secret not in mountable:
            why = f"because service account {who} does not reference that secret"
            yield f"{what} is not allowed {why}"
    listed = {each.get("name") for each in account.get("imagePullSecrets") or ()}
    for number, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name") not in listed:
            yield (
                f'imagePullSecrets[{number}].name="{each.get("name", "")}" is not '
                f"allowed because service account {who} does not reference that "
                "imagePullSecret"
            )
