"""The flags of the signing controller (csrsigningcontroller.go of app/options)."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from controller_manager.options.controller_options import ControllerOptions, option

_Signer = tuple[str, str, str]
"""A signer, its part of the flags' names, and its part of the configuration."""

_CLIENT: Final = (
    *(KUBE_APISERVER_CLIENT, "kube-apiserver-client"),
    "KubeAPIServerClientSignerConfiguration",
)
_KUBELET_CLIENT: Final = (
    *(KUBELET_CLIENT, "kubelet-client"),
    "KubeletClientSignerConfiguration",
)
_KUBELET_SERVING: Final = (
    *(KUBELET_SERVING, "kubelet-serving"),
    "KubeletServingSignerConfiguration",
)
_LEGACY: Final = (
    *(LEGACY_UNKNOWN, "legacy-unknown"),
    "LegacyUnknownSignerConfiguration",
)


class AuthorityFiles(Struct, frozen=True):
    """The files of an authority, and the prefix of the flags that name them."""

    certificate: str
    key: str
    flag: str = "cluster-signing"


def _certificate(signer: _Signer) -> Any:  # noqa: ANN401 - an attribute of the flag's type
    name, flag, field = signer
    return option(
        f"cluster-signing-{flag}-cert-file",
        "string",
        None,
        f"The authority that signs for {name}.",
        f"CSRSigningController.{field}.CertFile",
    )


def _key(signer: _Signer) -> Any:  # noqa: ANN401 - an attribute of the flag's type
    name, flag, field = signer
    return option(
        f"cluster-signing-{flag}-key-file",
        "string",
        None,
        f"The key of the authority that signs for {name}.",
        f"CSRSigningController.{field}.KeyFile",
    )


class SigningOptions(ControllerOptions):
    """The authorities, and the longest validity in seconds."""

    cert_file: str = option(
        "cluster-signing-cert-file",
        "string",
        None,
        "The authority that signs all certificates.",
        "CSRSigningController.ClusterSigningCertFile",
    )
    duration: float = option(
        "cluster-signing-duration",
        "duration",
        "8760h0m0s",
        "The longest validity of signed certificates.",
        "CSRSigningController.ClusterSigningDuration",
    )
    key_file: str = option(
        "cluster-signing-key-file",
        "string",
        None,
        "The key of the authority that signs all certificates.",
        "CSRSigningController.ClusterSigningKeyFile",
    )
    client_cert_file: str = _certificate(_CLIENT)
    client_key_file: str = _key(_CLIENT)
    kubelet_client_cert_file: str = _certificate(_KUBELET_CLIENT)
    kubelet_client_key_file: str = _key(_KUBELET_CLIENT)
    kubelet_serving_cert_file: str = _certificate(_KUBELET_SERVING)
    kubelet_serving_key_file: str = _key(_KUBELET_SERVING)
    legacy_unknown_cert_file: str = _certificate(_LEGACY)
    legacy_unknown_key_file: str = _key(_LEGACY)

    def authorities(self) -> Mapping[str, AuthorityFiles]:
        """Return the files of each signer that has files, by the signer's name.

        The common files do not count if any signer has files of its own.
        """
        client = self.kubelet_client_cert_file, self.kubelet_client_key_file
        serving = self.kubelet_serving_cert_file, self.kubelet_serving_key_file
        legacy = self.legacy_unknown_cert_file, self.legacy_unknown_key_file
        files = {
            _CLIENT: (self.client_cert_file, self.client_key_file),
            _KUBELET_CLIENT: client,
            _KUBELET_SERVING: serving,
            _LEGACY: legacy,
        }
        own = {
            name: AuthorityFiles(*pair, f"cluster-signing-{flag}")
            for (name, flag, _), pair in files.items()
        }
        if given := {name: each for name, each in own.items() if each.certificate}:
            return given
        if not self.cert_file or not self.key_file:
            return {}
        return dict.fromkeys(own, AuthorityFiles(self.cert_file, self.key_file))
