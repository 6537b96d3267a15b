"""The certificate in the secret: made once, renewed in time, shared by all replicas."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from cryptography import x509

from controller_manager.api.core.secrets import SECRETS, Secret, decoded, encoded
from controller_manager.observability.logs import silent_logger
from controller_manager.sdk import Descriptor, ObjectMeta
from controller_manager.serving.certificates import self_signed
from controller_manager.testing import VirtualManager
from controller_manager.webhooks.certificates import WebhookCertificates
from tests.sdk.websites import CONTROLLER

HOST = "hooks.default.svc"
DAY = timedelta(days=1).total_seconds()


@pytest.fixture
def own_controllers() -> Sequence[Descriptor]:
    return (CONTROLLER,)


def replica(manager: VirtualManager, host: str = HOST) -> WebhookCertificates:
    where = ("default", "hooks", host)
    return WebhookCertificates(manager.client, *where, manager.clock, silent_logger())


async def stored(manager: VirtualManager) -> Secret:
    return await manager.client.get(SECRETS, "default", "hooks")


def count(pem: bytes) -> int:
    return len(x509.load_pem_x509_certificates(pem))


async def test_the_first_replica_makes_it_and_the_others_read_it(
    manager: VirtualManager,
) -> None:
    """Also if both begin at once. Nothing is written while no step is due."""
    one, two = replica(manager), replica(manager)
    await asyncio.gather(one.refresh(b""), two.refresh(b""))
    assert one.served is not None
    assert one.served == two.served
    assert one.authorities == two.authorities == one.served.certificate
    secret = await stored(manager)
    assert (secret.type, decoded(secret, "tls.key")) == (
        "kubernetes.io/tls",
        one.served.key.decode(),
    )
    await one.refresh(one.authorities)
    assert await stored(manager) == secret
    names = x509.load_pem_x509_certificate(one.served.certificate).extensions
    found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [each.value for each in found] == [HOST]


async def test_a_certificate_is_renewed_without_a_moment_of_distrust(
    manager: VirtualManager,
) -> None:
    """The new authority is trusted before it is served, the old one until it ends."""
    one, two = replica(manager), replica(manager)
    await one.refresh(b"")
    first = one.served
    assert first is not None
    await asyncio.sleep(306 * DAY)
    await asyncio.gather(one.refresh(first.certificate), two.refresh(b""))
    assert one.served == two.served == first
    assert one.authorities == two.authorities
    assert count(one.authorities) == 2
    await one.refresh(one.authorities)
    assert one.served == first  # for an hour
    await asyncio.sleep(3700)
    await one.refresh(first.certificate)
    assert one.served == first  # a configuration lacks the new authority
    await asyncio.gather(one.refresh(one.authorities), two.refresh(two.authorities))
    second = one.served
    assert second is not None
    assert second == two.served != first
    assert one.authorities == second.certificate + first.certificate
    assert "next.crt" not in ((await stored(manager)).data or {})
    await asyncio.sleep(60 * DAY)
    await one.refresh(one.authorities)
    assert (one.served, one.authorities) == (second, second.certificate)


async def test_a_secret_that_was_deleted_comes_back_as_it_was(
    manager: VirtualManager,
) -> None:
    """So replicas that have not noticed are trusted all the time."""
    one, two = replica(manager), replica(manager)
    await one.refresh(b"")
    await two.refresh(b"")
    before = await stored(manager)
    await manager.client.delete(SECRETS, "default", "hooks")
    await asyncio.gather(two.refresh(two.authorities), one.refresh(one.authorities))
    assert one.served == two.served
    assert (await stored(manager)).data == before.data


@pytest.mark.parametrize("fault", ["text", "key", "host", "empty", "authority"])
async def test_a_secret_that_cannot_be_used_is_mended(
    manager: VirtualManager, fault: str
) -> None:
    """By a replica that has none; also one that somebody has made for us."""
    other = self_signed("x", ["x.svc"], now=manager.clock.now())
    mine = self_signed("x", [HOST], now=manager.clock.now())
    pair = {
        "text": ("no certificate", "no key"),
        "key": (mine.certificate.decode(), other.key.decode()),
        "host": (other.certificate.decode(), other.key.decode()),
        "empty": ("", ""),
        "authority": (mine.certificate.decode(), mine.key.decode()),
    }[fault]
    data = {"tls.crt": encoded(pair[0]), "tls.key": encoded(pair[1])}
    metadata = ObjectMeta(namespace="default", name="hooks")
    secret = Secret(metadata=metadata, type="kubernetes.io/tls", data=data)
    await manager.client.create(SECRETS, secret)
    one = replica(manager)
    await one.refresh(b"")
    assert one.served is not None
    assert one.served.certificate in one.authorities
    assert (one.served.certificate == mine.certificate) == (fault == "authority")
    assert decoded(await stored(manager), "ca.crt") == one.authorities.decode()


async def test_a_process_that_was_paused_for_a_year_renews_at_once(
    manager: VirtualManager,
) -> None:
    """One that slept over the renewal by another takes what that one has written."""
    one, asleep = replica(manager), replica(manager)
    await one.refresh(b"")
    await asleep.refresh(b"")
    await asyncio.sleep(400 * DAY)
    await one.refresh(one.authorities)
    assert one.served != asleep.served
    assert count(one.authorities) == 1
    await asleep.refresh(asleep.authorities)
    assert asleep.served == one.served


async def test_another_host_needs_another_certificate(manager: VirtualManager) -> None:
    """As of a process that ran on a machine before; the old one stays trusted."""
    local, inside = replica(manager, "127.0.0.1"), replica(manager)
    await local.refresh(b"")
    await inside.refresh(b"")
    assert local.served is not None
    assert inside.served != local.served
    assert local.served.certificate in inside.authorities
