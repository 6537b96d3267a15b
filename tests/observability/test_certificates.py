"""The metric of certificates shows when each of them ends."""

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from prometheus_client import CollectorRegistry

from controller_manager.client.identity.credentials import load_credentials
from controller_manager.clock import LoopClock
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.collectors import CertificateCollector
from controller_manager.options.config import CertificateFiles, ServingConfig
from controller_manager.serving.certificates import Certificates, Pair, self_signed
from tests.clusters import EPOCH

CLOCK = LoopClock(EPOCH)


def pair(days: int = 100) -> Pair:
    return self_signed("a", ["a"], validity=timedelta(days=days))


def end(found: Pair) -> float:
    certificate = x509.load_pem_x509_certificate(found.certificate)
    return certificate.not_valid_after_utc.timestamp()


def write(directory: Path, name: str, found: Pair) -> CertificateFiles:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    certificate.write_bytes(found.certificate)
    key.write_bytes(found.key)
    return CertificateFiles(str(certificate), str(key))


def kubeconfig(directory: Path, server: str, **user: Any) -> str:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_the_certificate_of_a_chain_that_ends_first_counts() -> None:
    registry = CollectorRegistry()
    collector = CertificateCollector(registry)
    long, short = pair(300), pair(30)
    chain = long.certificate + short.certificate
    collector.show("serving", lambda: {"/tls.crt": chain, "/broken.crt": b"no"})
    collector.show("client", lambda: {"kubeconfig /a": long.certificate})
    (metric,) = registry.collect()
    assert {tuple(each.labels.values()): each.value for each in metric.samples} == {
        ("serving", "/tls.crt"): end(short),
        ("client", "kubeconfig /a"): end(long),
    }


@pytest.mark.looptime
async def test_a_client_certificate_is_shown_with_its_file(tmp_path: Path) -> None:
    first, second = pair(), pair()
    files = write(tmp_path, "client", first)
    user = {"client-certificate": files.certificate, "client-key": files.key}
    path = kubeconfig(tmp_path, "https://127.0.0.1:6443", **user)
    credentials = load_credentials(path, "", CLOCK)
    shown = [credentials.certificate()]
    write(tmp_path, "client", second)
    await credentials.refresh(await credentials.identity())
    shown.append(credentials.certificate())
    assert shown == [
        {files.certificate: first.certificate},
        {files.certificate: second.certificate},
    ]


def test_a_kubeconfig_and_its_certificate_are_shown(tmp_path: Path) -> None:
    found = pair()
    data = {
        "client-certificate-data": base64.b64encode(found.certificate).decode(),
        "client-key-data": base64.b64encode(found.key).decode(),
    }
    path = kubeconfig(tmp_path, "https://127.0.0.1:6443", **data)
    shown = {f"kubeconfig {path}": found.certificate}
    assert load_credentials(path, "", CLOCK).certificate() == shown
    path = kubeconfig(tmp_path, "http://127.0.0.1:6443", **data)
    assert load_credentials(path, "", CLOCK).certificate() == {}
    path = kubeconfig(tmp_path, "https://127.0.0.1:6443", token="a")
    assert load_credentials(path, "", CLOCK).certificate() == {}


def test_serving_certificates_are_shown_with_their_files(tmp_path: Path) -> None:
    first, second, named = pair(), pair(), pair()
    files = write(tmp_path, "tls", first)
    others = write(tmp_path, "sni", named)
    certificates = Certificates(
        ServingConfig(certificate=files, sni=(others,)),
        lambda: b"",
        logger=silent_logger(),
    )
    shown = [certificates.current()]
    write(tmp_path, "tls", second)
    shown.append(certificates.current())
    assert shown == [
        {others.certificate: named.certificate, files.certificate: first.certificate},
        {others.certificate: named.certificate, files.certificate: second.certificate},
    ]


def test_the_certificate_that_the_daemon_makes_is_shown_without_a_file() -> None:
    certificates = Certificates(ServingConfig(), lambda: b"", logger=silent_logger())
    assert list(certificates.current()) == ["self-signed"]
