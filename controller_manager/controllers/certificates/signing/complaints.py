"""Which requests a signer refuses (signer.go). Pure functions."""

from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
)
from controller_manager.control.certificates.kubelet import (
    client_complaint,
    serving_complaint,
)
from controller_manager.control.certificates.request import ParsedRequest

_RSA_BITS: Final = 2048

_CLIENT_AUTH: Final = "client auth"
_CLIENT_USAGES: Final = ("digital signature", "key encipherment", _CLIENT_AUTH)


def complaint_of(
    signer: str, parsed: ParsedRequest, usages: Sequence[str]
) -> str | None:
    """Return why a signer refuses a request, in upstream's words, or `None`.

    The signer kubernetes.io/legacy-unknown refuses short RSA keys only, as all do. That
    is stricter than upstream, which signs those of 1,024 bits.
    """
    key = parsed.request.public_key()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _RSA_BITS:
        return f"the RSA key has {key.key_size} bits, at least {_RSA_BITS} are required"
    if signer == KUBE_APISERVER_CLIENT:
        return _client_complaint(usages)
    if signer == KUBELET_CLIENT:
        return client_complaint(parsed, usages)
    if signer == KUBELET_SERVING:
        return serving_complaint(parsed, usages)
    return None


def _client_complaint(usages: Sequence[str]) -> str | None:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            return f"invalid usage for client certificate: {usage}"
    if _CLIENT_AUTH not in usages:
        return f"missing required usage for client certificate: {_CLIENT_AUTH}"
    return None
