"""Approved requests are signed on a cluster in memory."""

import asyncio
import io
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from controller_manager.api.certificates.v1 import (
    KUBE_APISERVER_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    SIGNING_REQUESTS,
    CertificateSigningRequestCondition,
)
from controller_manager.client.rest.errors import Forbidden
from controller_manager.clock import LoopClock
from controller_manager.controllers.certificates.signing.authority import (
    AuthoritySource,
)
from controller_manager.controllers.certificates.signing.options import (
    AuthorityFiles,
    SigningOptions,
)
from controller_manager.manager.startup import StartError
from controller_manager.observability.logs import make_logger, silent_logger
from tests.clusters import EPOCH, make_config
from tests.controllers.certificates.authorities import (
    SERVING_USAGES,
    Key,
    condition,
    issued_in,
    pem_of,
    request_for,
    seconds,
    signing_request,
    write_authority,
)
from tests.controllers.certificates.clusters import (
    SIGNING,
    config_for,
    decide,
    make,
    read,
)
from tests.controllers.hands import Hands

pytestmark = pytest.mark.looptime


async def test_an_approved_request_is_signed_once(tmp_path: Path) -> None:
    cluster = Hands(rbac=True)
    make(cluster, signing_request())
    async with cluster.confined_manager(config_for(tmp_path)) as recording:
        await asyncio.sleep(600)
        assert recording.writes == []
        await decide(cluster, "a")
        await asyncio.sleep(600)
    found = await read(cluster)
    certificate = issued_in({"certificate": found.status.certificate})
    assert certificate.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert seconds(certificate) == timedelta(days=365)
    assert [(each.method, each.path, each.status) for each in recording.writes] == [
        ("PUT", f"{SIGNING_REQUESTS.path('', 'a')}/status", 200)
    ]


async def test_a_refused_request_fails_for_good(tmp_path: Path) -> None:
    cluster = Hands(rbac=True)
    request = signing_request(signer=KUBELET_SERVING, usages=SERVING_USAGES)
    make(cluster, request)
    async with cluster.confined_manager(config_for(tmp_path)) as recording:
        await decide(cluster, "a")
        await asyncio.sleep(600)
    status = (await read(cluster)).status
    assert status.certificate is None
    assert status.conditions is not None
    approved, failed = status.conditions
    time = failed.last_update_time
    assert failed == CertificateSigningRequestCondition(
        type="Failed",
        status="True",
        reason="SignerValidationFailure",
        message="DNS or IP subjectAltName is required",
        last_update_time=time,
        last_transition_time=time,
    )
    assert approved.type == "Approved"
    assert len(recording.writes) == 1


async def test_unsigned_requests_stay(cluster: Hands, tmp_path: Path) -> None:
    make(cluster, signing_request("denied"))
    make(cluster, signing_request("foreign", signer="example.com/signer"))
    make(cluster, signing_request("failed"))
    await decide(cluster, "denied", "Denied")
    await decide(cluster, "failed")
    cluster.edit(
        SIGNING_REQUESTS,
        "failed",
        status={"conditions": [condition("Approved"), condition("Failed")]},
    )
    await decide(cluster, "foreign")
    config = config_for(tmp_path)
    async with cluster.manager(config) as recording:
        await asyncio.sleep(600)
    assert [each for each in recording.writes if "certificates" in each.path] == []


async def test_a_changed_authority_signs_from_then_on(tmp_path: Path) -> None:
    log = io.StringIO()
    cluster = Hands()
    config = config_for(tmp_path)
    for name in "abc":
        make(cluster, signing_request(name))
    async with cluster.manager(config, logger=make_logger(stream=log)):
        await decide(cluster, "a")
        await asyncio.sleep(1)
        certificate = (tmp_path / "ca.crt").read_bytes()
        key = ec.generate_private_key(ec.SECP256R1())
        write_authority(tmp_path, key, "next-ca")
        new = (tmp_path / "ca.crt").read_bytes()
        (tmp_path / "ca.crt").write_bytes(certificate)
        await decide(cluster, "b")
        await asyncio.sleep(1)
        (tmp_path / "ca.crt").write_bytes(new)
        await decide(cluster, "c")
        await asyncio.sleep(1)
    issuers = [
        issued_in(
            {"certificate": (await read(cluster, name)).status.certificate}
        ).issuer.rfc4514_string()
        for name in "abc"
    ]
    assert issuers == ["CN=test-ca", "CN=test-ca", "CN=next-ca"]
    assert "New authority not usable" in log.getvalue()
    assert "PRIVATE KEY" not in log.getvalue()


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        (b"", None, "expected 1 certificate, found 0"),
        (None, b"", "there is no private key in it, or it is encrypted"),
        (None, b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
         "is no key with which certificates can be signed"),
        (None, pem_of(ec.generate_private_key(ec.SECP256R1())),
         "is not the certificate's"),
    ],
)  # fmt: skip
async def test_an_unusable_authority_is_one_line(
    tmp_path: Path, certificate: bytes | None, key: bytes | None, message: str
) -> None:
    config = config_for(tmp_path)
    for name, content in (("ca.crt", certificate), ("ca.key", key)):
        if content is not None:
            (tmp_path / name).write_bytes(content)
    with pytest.raises(ExceptionGroup) as caught:
        async with Hands().manager(config):
            pass
    (error,) = caught.value.exceptions
    assert isinstance(error, StartError)
    assert message in str(error)
    assert str(tmp_path) in str(error)
    assert "c2VjcmV0" not in str(error)


async def test_without_files_it_does_not_run() -> None:
    """As upstream."""
    log = io.StringIO()
    config = make_config(controllers=(SIGNING, "ttl"))
    async with Hands().manager(config, logger=make_logger(stream=log)):
        pass
    assert (
        'give="--cluster-signing-cert-file and --cluster-signing-key-file"'
    ) in log.getvalue()


def test_files_of_one_signer_switch_the_common_ones_off() -> None:
    """Upstream then runs the signers that have files of their own."""
    common = SigningOptions(cert_file="c", key_file="k")
    assert {*common.authorities().values()} == {AuthorityFiles("c", "k")}
    assert len(common.authorities()) == 4
    assert SigningOptions(cert_file="c").authorities() == {}
    own = SigningOptions(legacy_unknown_cert_file="l", legacy_unknown_key_file="m")
    files = AuthorityFiles("l", "m", "cluster-signing-legacy-unknown")
    assert own.authorities() == {LEGACY_UNKNOWN: files}


async def test_a_wrong_clock_does_not_matter(cluster: Hands, tmp_path: Path) -> None:
    """Else all certificates would be useless."""
    make(cluster, signing_request())
    config = config_for(tmp_path)
    async with cluster.manager(config, clock=LoopClock(EPOCH + timedelta(days=2))):
        await decide(cluster, "a")
        await asyncio.sleep(1)
    status = {"certificate": (await read(cluster)).status.certificate}
    begins = issued_in(status).not_valid_before_utc
    late = cluster.clock.now() - begins
    assert timedelta(minutes=5) <= late <= timedelta(minutes=5, seconds=3)


async def test_the_server_refuses_a_request_for_administrators() -> None:
    request = signing_request(
        request=request_for("jane", ("system:masters",)),
        signer=KUBE_APISERVER_CLIENT,
        usages=("client auth",),
    )
    body = msgspec.json.encode(request)
    with pytest.raises(Forbidden, match="with system:masters group is not allowed"):
        await Hands().client.create_json(SIGNING_REQUESTS, "", body)


OLD, NEW = "CN=old", "CN=new"


class Mounted:
    """A directory as a kubelet mounts a secret: its files change at one moment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._versions = 0
        for name in ("ca.crt", "ca.key"):
            (directory / name).symlink_to(f"..data/{name}")

    def put(self, name: str, key: Key | None = None) -> Path:
        """Mount an authority in the place of the one before; return where it is."""
        self._versions += 1
        version = self.directory / f"..version-{self._versions}"
        version.mkdir()
        write_authority(version, key, name)
        link = self.directory / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.directory / "..data")
        return version

    @property
    def files(self) -> AuthorityFiles:
        return AuthorityFiles(
            str(self.directory / "ca.crt"), str(self.directory / "ca.key")
        )


class Watched:
    """A source with its log, which must never have anything of a key."""

    def __init__(self, files: AuthorityFiles) -> None:
        self.log = io.StringIO()
        self._source = AuthoritySource(files, make_logger(stream=self.log))

    def subject(self) -> str:
        """Return whose authority signs now; its key is that of its certificate."""
        authority = self._source.current()
        assert authority.key.public_key() == authority.certificate.public_key()
        return authority.certificate.subject.rfc4514_string()

    def warnings(self) -> int:
        return self.log.getvalue().count("New authority not usable")


def test_a_mounted_secret_is_replaced_at_one_moment(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path)
    mounted.put("old")
    source = Watched(mounted.files)
    assert source.subject() == OLD
    mounted.put("new")
    assert [source.subject() for _ in range(3)] == [NEW] * 3
    assert source.warnings() == 0


def test_half_read_files_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = Mounted(tmp_path)
    mounted.put("old")
    source = Watched(mounted.files)
    read = Path.read_bytes
    steps = iter([lambda: mounted.put("new")])

    def read_then_replace(path: Path) -> bytes:
        content = read(path)
        next(steps, lambda: None)()
        return content

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", read_then_replace)
        assert source.subject() == OLD
    assert source.warnings() == 1
    assert source.subject() == NEW


@pytest.mark.parametrize("name", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_half_a_file_does_not_sign(tmp_path: Path, name: str, kept: float) -> None:
    """The last authority does, until the file is whole; a new key never leaks."""
    files = AuthorityFiles(*write_authority(tmp_path, name="old"))
    source = Watched(files)
    key = ec.generate_private_key(ec.SECP256R1())
    write_authority(tmp_path, key, "new")
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * kept)])
    assert source.subject() == OLD
    assert source.warnings() == 1
    (tmp_path / name).write_bytes(whole)
    assert source.subject() == NEW
    lines = pem_of(key).decode().splitlines()[1:-1]
    assert not any(line in source.log.getvalue() for line in lines)


def test_swapped_files_do_not_sign(tmp_path: Path) -> None:
    files = AuthorityFiles(*write_authority(tmp_path, name="old"))
    source = Watched(files)
    certificate, key = (Path(each) for each in (files.certificate, files.key))
    contents = certificate.read_bytes(), key.read_bytes()
    certificate.write_bytes(contents[1])
    key.write_bytes(contents[0])
    assert source.subject() == OLD
    assert source.warnings() == 1
    assert all(
        line not in source.log.getvalue()
        for line in contents[1].decode().splitlines()[1:-1]
    )


@pytest.mark.parametrize("change", ["gone", "directory", "unreadable"])
def test_files_that_cannot_be_read_do_not_sign(tmp_path: Path, change: str) -> None:
    files = AuthorityFiles(*write_authority(tmp_path, name="old"))
    source = Watched(files)
    key = Path(files.key)
    key.unlink()
    if change == "directory":
        key.mkdir()
    elif change == "unreadable":
        key.symlink_to(key)
    assert source.subject() == OLD
    assert source.warnings() == 1
    if change == "directory":
        key.rmdir()
    elif change == "unreadable":
        key.unlink()
    write_authority(tmp_path, name="new")
    assert source.subject() == NEW


_PARAMETERS = (
    b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
)


@pytest.mark.parametrize(
    "form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL]
)
@pytest.mark.parametrize(
    ("key", "before"),
    [
        (rsa.generate_private_key(65537, 2048), b""),
        (ec.generate_private_key(ec.SECP256R1()), _PARAMETERS),
    ],
    ids=["RSA", "EC"],
)
def test_a_key_is_read_in_both_forms(
    tmp_path: Path,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    before: bytes,
    form: PrivateFormat,
) -> None:
    files = AuthorityFiles(*write_authority(tmp_path, key))
    pem = key.private_bytes(Encoding.PEM, form, NoEncryption())
    Path(files.key).write_bytes(before + pem)
    authority = AuthoritySource(files, silent_logger()).current()
    assert authority.key.public_key() == key.public_key()
    assert repr(authority) == "Authority('CN=test-ca')"
