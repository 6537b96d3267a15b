"""No key, token or password is in anything that the daemon shows."""

import base64
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from controller_manager.api.core.secrets import ACCOUNT_NAME, SERVICE_ACCOUNT_TOKEN
from tests.controllers.certificates.authorities import (
    Key,
    condition,
    pem_of,
    signing_request,
    write_authority,
)
from tests.controllers.identity.tokencleaner.builders import (
    TOKEN_SECRET,
    bootstrap_token,
)
from tests.robustness.cluster import FaultyCluster, faulty_cluster
from tests.robustness.daemon import Daemon, run_daemon
from tests.robustness.situation import on_uvloop, until

pytestmark = pytest.mark.slow


REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
PAGES: Final = (
    "/healthz?verbose",
    "/livez?verbose",
    "/readyz?verbose",
    "/metrics",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/pprof/",
    "/debug/pprof/goroutine?debug=2",
    "/debug/controllers/certificatesigningrequest-signing-controller/queue",
)
"""The pages that an administrator may read; none has a secret."""

FORMS: Final = (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL)


def lines_of(key: Key) -> Iterator[str]:
    """Yield each line of a key, in the forms in which a file may have it."""
    for form in FORMS:
        text = key.private_bytes(Encoding.PEM, form, NoEncryption()).decode()
        yield from text.splitlines()[1:-1]


def numbers_of(key: Key) -> Iterator[str]:
    """Yield the secret number of a key, decimal and hexadecimal."""
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        secrets = [numbers.d, numbers.p, numbers.q]
    else:
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        secrets = [key.private_numbers().private_value]
    for each in secrets:
        yield str(each)
        yield f"{each:x}"


async def approved(cluster: FaultyCluster, name: str, **parts: Any) -> None:
    request = await cluster.create(REQUESTS, signing_request(name, **parts))
    request["status"]["conditions"] = [condition("Approved")]
    await cluster._call("PUT", f"{REQUESTS}/{name}/approval", request)


def certificate_of(cluster: FaultyCluster, name: str) -> str:
    stored = cluster.stored("certificatesigningrequests.certificates.k8s.io")
    (status,) = (e["status"] for e in stored if e["metadata"]["name"] == name)
    certificate: str = status.get("certificate", "")
    return certificate


async def fill(cluster: FaultyCluster) -> str:
    """Have a token signed; return it."""
    secret = {
        "metadata": {"name": "robot", "annotations": {ACCOUNT_NAME: "robot"}},
        "type": SERVICE_ACCOUNT_TOKEN,
    }
    path = "/api/v1/namespaces/default"
    await cluster.create(f"{path}/serviceaccounts", {"metadata": {"name": "robot"}})
    await cluster.create(f"{path}/secrets", secret)

    def token() -> str:
        (found,) = (
            each
            for each in cluster.stored("secrets", "default")
            if each["metadata"]["name"] == "robot"
        )
        encoded: str = found.get("data", {}).get("token", "")
        return encoded

    await until(lambda: bool(token()), 30, "a token")
    return base64.b64decode(token()).decode()


async def sign_for_newcomers(cluster: FaultyCluster) -> None:
    secret = bootstrap_token("abc123")
    await cluster.create("/api/v1/namespaces/kube-system/secrets", secret)
    info = {"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": "x"}}
    await cluster.create("/api/v1/namespaces/kube-public/configmaps", info)

    def is_signed() -> bool:
        (found,) = (
            each
            for each in cluster.stored("configmaps", "kube-public")
            if each["metadata"]["name"] == "cluster-info"
        )
        return "jws-kubeconfig-abc123" in found["data"]

    await until(is_signed, 30, "a signature")


def broken(key: Key, other: Key) -> tuple[bytes, ...]:
    """Return what a key file may have: half of it, a line less, another key."""
    whole = pem_of(key)
    first, _, *rest = whole.splitlines(keepends=True)
    return whole[: len(whole) // 2], b"".join((first, *rest)), pem_of(other)


async def fail_to_sign(
    cluster: FaultyCluster,
    daemon: Daemon,
    replace: Callable[[bytes], object],
    contents: Sequence[bytes],
) -> None:
    """Replace the authority's key by broken ones, and ask for certificates."""
    for number, content in enumerate(contents):
        replace(content)
        await approved(cluster, f"meanwhile-{number}")
        await until(
            lambda name=f"meanwhile-{number}": bool(certificate_of(cluster, name)),  # type: ignore[misc]
            30,
            "a certificate of the last authority",
        )
    assert daemon.log().count("New authority not usable") == 3
    await approved(cluster, "refused", usages=("client auth",))


async def shown_by(cluster: FaultyCluster, daemon: Daemon) -> dict[str, str]:
    """Return all that a daemon shows, by where it does."""
    shown = {"the log": daemon.log()}
    for page in PAGES:
        status, text = await daemon.get(page, as_admin=True)
        assert status in (200, 404), page
        shown[page] = text
    shown["the events"] = str(cluster.stored("events", "default"))
    shown["the requests"] = str([(e.path, e.query) for e in cluster.requests])
    return shown


@pytest.mark.parametrize("algorithm", ["RSA", "EC"])
@on_uvloop
async def test_no_secret_is_shown(tmp_path: Path, algorithm: str) -> None:
    """Not while it signs, fails to sign, or reloads a key, at any verbosity."""

    def new_key() -> Key:
        if algorithm == "RSA":
            return rsa.generate_private_key(65537, 2048)
        return ec.generate_private_key(ec.SECP256R1())

    keys = authority, tokens, other = new_key(), new_key(), new_key()
    certificate, key = write_authority(tmp_path, authority)
    token_file = tmp_path / "sa.key"
    token_file.write_bytes(tokens.private_bytes(Encoding.PEM, FORMS[1], NoEncryption()))
    flags = (
        "--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
        f"--cluster-signing-cert-file={certificate}",
        f"--cluster-signing-key-file={key}",
        f"--service-account-private-key-file={token_file}",
        "--profiling",
        "-v=10",
    )

    async with (
        faulty_cluster() as cluster,
        run_daemon(cluster.kubeconfig, tmp_path, *flags) as daemon,
    ):
        await daemon.until_it_leads()
        await approved(cluster, "first")
        await until(lambda: bool(certificate_of(cluster, "first")), 30, "first")
        token = await fill(cluster)
        await sign_for_newcomers(cluster)
        await fail_to_sign(
            cluster, daemon, Path(key).write_bytes, broken(authority, other)
        )
        secrets = [
            *(line for each in keys for line in lines_of(each)),
            *(text for each in keys for text in numbers_of(each)),
            token,
            token.rpartition(".")[2],
            TOKEN_SECRET,
            base64.b64encode(TOKEN_SECRET.encode()).decode(),
            cluster.token,
        ]
        shown = await shown_by(cluster, daemon)
    assert all(len(each) > 12 for each in secrets)
    found = [
        (where, secret)
        for where, text in shown.items()
        for secret in secrets
        if secret in text
    ]
    assert found == []
    assert certificate in shown["/flagz"]
