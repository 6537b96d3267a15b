"""``kubectl certificate`` and bootstrap tokens on the development cluster."""

import base64
import json
import re
import time
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import (
    KUBECTL,
    NEEDS_KUBECTL,
    Kubectl,
    kubectl_in,
    running_cluster,
    version,
)
from tests.e2e.shown import create, table

pytestmark = NEEDS_KUBECTL

tells_who_asks = pytest.mark.skipif(
    KUBECTL is None or version() < (1, 28), reason="kubectl auth whoami asks v1beta1"
)

SIGNER = "kubernetes.io/kube-apiserver-client"
PROOF = "0123456789abcdef"
TOKEN = f"abcdef.{PROOF}"
ASK = "system:node-bootstrapper"
APPROVAL = "system:certificates.k8s.io:certificatesigningrequests"
AS_ADMIN = "kubernetes-admin"


def make_request(path: Path, name: str, group: str) -> str:
    """Write a new key; return a request for a certificate for it, in base64."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    names = ((NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, name))
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = builder.sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def signing_request(name: str, request: str) -> JSON:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": request,
            "signerName": SIGNER,
            "expirationSeconds": 86400,
            "usages": ["client auth"],
        },
    }


def as_other(kubectl: Kubectl, directory: Path, *flags: str) -> tuple[str, ...]:
    """Return the flags of kubectl for the same cluster, and for another user."""
    config = yaml.safe_load(kubectl("config", "view", "--raw"))
    cluster = config["clusters"][0]["cluster"]
    authority = directory / "ca.crt"
    authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    server = f"--server={cluster['server']}"
    return ("--kubeconfig=", server, f"--certificate-authority={authority}", *flags)


def certificate_of(kubectl: Kubectl, name: str) -> bytes:
    deadline = time.monotonic() + 20
    while True:
        request = json.loads(kubectl("get", "csr", name, "-o", "json"))
        if found := request["status"].get("certificate"):
            return base64.b64decode(found)
        assert time.monotonic() < deadline, request["status"]
        time.sleep(0.1)


def who(kubectl: Kubectl, *flags: str) -> JSON:
    """Return the user of a certificate; its extra names the certificate."""
    shown = json.loads(kubectl(*flags, "auth", "whoami", "-o", "json"))
    found: JSON = shown["status"]["userInfo"]
    (credential,) = found.pop("extra")["authentication.kubernetes.io/credential-id"]
    assert re.fullmatch("X509SHA256=[0-9a-f]{64}", credential)
    return found


@tells_who_asks
def test_an_approved_certificate_authenticates_its_owner(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    """Its owner is the user, and the member of the group, that it names."""
    key = tmp_path / "jane.key"
    create(kubectl, signing_request("jane", make_request(key, "jane", "devs")))
    assert table(kubectl, "csr", "jane", "-o", "wide") == [
        "NAME  AGE  SIGNERNAME  REQUESTOR  REQUESTEDDURATION  CONDITION",
        f"jane  AGE  {SIGNER}  {AS_ADMIN}  24h  Pending",
    ]
    approved = kubectl("certificate", "approve", "jane")
    assert approved == "certificatesigningrequest.certificates.k8s.io/jane approved\n"
    certificate = tmp_path / "jane.crt"
    certificate.write_bytes(certificate_of(kubectl, "jane"))
    (row,) = table(kubectl, "csr", "jane", "--no-headers")
    assert row == f"jane  AGE  {SIGNER}  {AS_ADMIN}  24h  Approved,Issued"
    described = kubectl("describe", "csr", "jane")
    assert "Status:              Approved,Issued" in described
    files = (f"--client-certificate={certificate}", f"--client-key={key}")
    jane = as_other(kubectl, tmp_path, *files)
    assert who(kubectl, *jane) == {
        "username": "jane",
        "groups": ["devs", "system:authenticated"],
    }


def test_a_request_that_is_denied_stays_so(kubectl: Kubectl, tmp_path: Path) -> None:
    """It is not signed, and cannot be approved any more."""
    request = make_request(tmp_path / "joe.key", "joe", "devs")
    create(kubectl, signing_request("joe", request))
    kubectl("certificate", "deny", "joe")
    refused = kubectl("certificate", "approve", "joe", ok=False)
    assert 'certificate signing request "joe" is already Denied' in refused
    (row,) = table(kubectl, "csr", "joe", "--no-headers")
    assert row == f"joe  AGE  {SIGNER}  {AS_ADMIN}  24h  Denied"


@tells_who_asks
def test_a_new_node_joins_as_under_kubeadm(tmp_path: Path) -> None:
    with running_cluster(tmp_path, "--rbac", "--nodes=0") as path:
        kubectl = kubectl_in(path, "joins")
        kubectl(
            *("create", "secret", "generic", "bootstrap-token-abcdef"),
            *("--namespace=kube-system", "--type=bootstrap.kubernetes.io/token"),
            *("--from-literal=token-id=abcdef", f"--from-literal=token-secret={PROOF}"),
            "--from-literal=usage-bootstrap-authentication=true",
        )
        newcomer = as_other(kubectl, tmp_path, f"--token={TOKEN}")
        key = tmp_path / "node.key"
        request = make_request(key, "system:node:new", "system:nodes")
        asked = signing_request("new", request)
        asked["spec"]["signerName"] += "-kubelet"
        asked["spec"]["usages"] = ["client auth", "digital signature"]
        manifest = yaml.safe_dump(asked)
        refused = kubectl(*newcomer, "create", "-f", "-", stdin=manifest, ok=False)
        assert 'User "system:bootstrap:abcdef" cannot create' in refused
        for name, role in (("ask", ASK), ("approve", f"{APPROVAL}:nodeclient")):
            group = "--group=system:bootstrappers"
            binding = ("create", "clusterrolebinding", name, f"--clusterrole={role}")
            kubectl(*binding, group)
        kubectl(*newcomer, "create", "-f", "-", stdin=manifest)
        certificate = tmp_path / "node.crt"
        certificate.write_bytes(certificate_of(kubectl, "new"))
        files = (f"--client-certificate={certificate}", f"--client-key={key}")
        node = as_other(kubectl, tmp_path, *files)
        assert who(kubectl, *node) == {
            "username": "system:node:new",
            "groups": ["system:nodes", "system:authenticated"],
        }
