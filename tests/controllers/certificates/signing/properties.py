"""Properties of the signing controller."""

import atexit
import base64
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from cryptography import x509

from controller_manager.controllers.certificates.signing.options import SigningOptions
from controller_manager.options.config import Config
from tests.controllers.certificates.authorities import issued_in, write_authority
from tests.controllers.certificates.workload import PLURAL, Requesters
from tests.simulation.changes import Path as FieldPath
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


@cache
def _files() -> tuple[str, str]:
    directory = TemporaryDirectory()
    atexit.register(directory.cleanup)
    return write_authority(Path(directory.name))


def _signs_or_fails(path: FieldPath, old: Any, new: Any) -> bool:
    """Allow to add a certificate, or the condition Failed at the end."""
    if path == ("metadata", "resourceVersion") or path[:2] == (
        "metadata",
        "managedFields",
    ):
        return True
    if path == ("status", "certificate"):
        return old is None and new is not None
    if path == ("status", "conditions"):
        return bool(new[:-1] == old and new[-1]["type"] == "Failed")
    return False


class SigningProperties(Properties):
    """It signs approved requests, each at most once."""

    controller = "certificatesigningrequest-signing-controller"
    may_write = (AllowedWrite(("update",), f"{PLURAL}/status", _signs_or_fails),)
    workload = Requesters
    bounded = ("certificatesigningrequest-signing-controller.authorities",)

    def __init__(self, state: State) -> None:
        """Remember nothing yet."""
        super().__init__(state)
        self._issued: dict[str, str] = {}

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Give the controller an authority."""
        certificate, key = _files()
        options = SigningOptions(cert_file=certificate, key_file=key)
        controllers = {**config.controllers, SigningOptions: options}
        return replace(config, controllers=controllers)

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a certificate is for an approved request, fits it, and stays."""
        if write.after is None or write.target.plural != PLURAL:
            return
        status, uid = write.after["status"], write.after["metadata"]["uid"]
        certificate = status.get("certificate")
        if certificate is None:
            return
        if self._issued.setdefault(uid, certificate) != certificate:
            yield f"{write}: the request has got another certificate"
        if write.controller != self.controller:
            return
        types = {each["type"] for each in status.get("conditions", [])}
        if "Approved" not in types or types & {"Denied", "Failed"}:
            yield f"{write}: a certificate for a request with {sorted(types)}"
        yield from _excess(write)

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that each approved request has its answer."""
        del managers
        for request in self.state.stored(PLURAL):
            status = request["status"]
            types = {each["type"] for each in status.get("conditions", [])}
            waits = "Approved" in types and not types & {"Denied", "Failed"}
            if waits and not status.get("certificate"):
                yield f"the request {request['metadata']['name']} has no certificate"


def _excess(write: Write) -> Iterator[str]:
    """Yield the parts of a certificate that its request did not ask for."""
    assert write.after is not None
    certificate = issued_in(write.after["status"])
    pem = base64.b64decode(write.after["spec"]["request"])
    request = x509.load_pem_x509_csr(pem)
    if certificate.public_key() != request.public_key():
        yield f"{write}: the certificate is for another key"
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    if constraints.value.ca:
        yield f"{write}: the certificate is one of an authority"
    wanted = {each.value for each in request.subject}
    if {each.value for each in certificate.subject} != wanted:
        yield f"{write}: the certificate is for {certificate.subject}"
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    if len(list(purposes.value)) != 1:
        yield f"{write}: the certificate is for other purposes, too"


PROPERTIES = SigningProperties
