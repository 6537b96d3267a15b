"""The cipher suites of TLS 1.2 are those of Go 1.26, in its order."""

import asyncio
import ssl
from urllib.parse import urlsplit

import pytest

from controller_manager.cli.flags import make_config as parsed
from controller_manager.client.identity.tls import TLSMaterial, TLSSettings
from controller_manager.clock import SystemClock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import ServingConfig
from controller_manager.options.tls import DEFAULT_CIPHERS
from tests.serving.servers import config_of, serving, trusting

GO = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
)


async def agreed(url: str, *offered: str) -> str:
    """Return the suite that the server takes of those offered, empty for none."""
    context = trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(":".join(offered))
    parts = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(
            parts.hostname, parts.port, ssl=context
        )
    except OSError:
        await asyncio.sleep(0)  # asyncio closes the socket in the next turn
        return ""
    cipher: tuple[str, str, int] = writer.get_extra_info("cipher")
    writer.close()
    await writer.wait_closed()
    return cipher[0]


async def test_the_server_takes_the_suites_of_go_and_no_others() -> None:
    """Its certificate has an ECDSA key, so those for RSA are left out here."""
    others = (
        "ECDHE-ECDSA-AES256-SHA384",
        "ECDHE-ECDSA-AES128-SHA256",
        "ECDHE-ECDSA-AES256-CCM",
        "ECDHE-ECDSA-CAMELLIA256-SHA384",
    )
    suites = [each for each in GO if "ECDSA" in each]
    async with serving() as url:
        assert [await agreed(url, each) for each in suites] == suites
        assert [await agreed(url, each) for each in others] == ["", "", "", ""]


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"), 1),
        (("ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-GCM-SHA384"), 1),
        (("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"), 0),
        # A client without instructions for AES has ChaCha20 first.
        (("ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256"), 0),
    ],
)
async def test_the_order_is_that_of_go(offered: tuple[str, ...], taken: int) -> None:
    async with serving() as url:
        assert await agreed(url, *offered) == offered[taken]


def test_chosen_suites_have_the_order_of_go_too() -> None:
    """The order of the flag does not count, as in Go."""
    chosen = (
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    )
    serving = parsed({"tls-cipher-suites": (chosen,)}, []).serving
    assert serving.ciphers == (GO[0], "ECDHE-RSA-AES128-SHA")


async def test_a_server_of_chosen_suites_takes_no_others() -> None:
    config = ServingConfig(port=0, bind_address="127.0.0.1", ciphers=(GO[0],))
    async with serving(config_of(serving=config)) as url:
        assert [await agreed(url, each) for each in (GO[0], GO[2])] == [GO[0], ""]


def test_a_client_offers_the_suites_of_go() -> None:
    """Besides those of TLS 1.3, which cannot be chosen."""
    context = TLSSettings(TLSMaterial(), SystemClock(), silent_logger()).current(None)
    offered = [each["name"] for each in context.get_ciphers()]
    assert [each for each in offered if not each.startswith("TLS_")] == [*GO]
    assert DEFAULT_CIPHERS == GO
