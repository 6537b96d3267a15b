"""A client certificate that does not verify ends the connection."""

import io
import ssl
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from controller_manager.observability.logs import make_logger
from controller_manager.options.config import Config
from tests.serving import servers
from tests.serving.servers import Authority, Reviewed, closed, get, serving, trusting

ENDED = datetime(2020, 1, 1, tzinfo=UTC)
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
GOOD = {"Authorization": "Bearer good"}
HEADERS = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}


def with_foreign(
    directory: Path, version: ssl.TLSVersion, until: datetime | None = None
) -> ssl.SSLContext:
    """Return a client with a certificate of an authority that nothing trusts."""
    strange = Authority(directory, "strange", until=until)
    context = trusting(pair=strange.issue("x", "admin", "system:masters"))
    context.minimum_version = context.maximum_version = version
    return context


def wanting(clients: Authority) -> Config:
    return closed(clients, skip_lookup=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("until", [None, ENDED])
@pytest.mark.parametrize("headers", [{}, GOOD])
async def test_a_foreign_certificate_is_refused(
    tmp_path: Path,
    version: ssl.TLSVersion,
    until: datetime | None,
    headers: dict[str, str],
) -> None:
    """A bearer token beside it does not count; other clients are answered."""
    config = wanting(Authority(tmp_path, "ca"))
    tls = with_foreign(tmp_path, version, until)
    async with serving(config, client=Reviewed().client) as url:
        for path in ("/metrics", "/healthz"):
            with pytest.raises(aiohttp.ClientError):
                await get(url + path, tls, headers)
        assert (await get(f"{url}/metrics", headers=GOOD))[0] == 200


async def test_the_log_says_why_a_certificate_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``--v=4``: a client of TLS 1.3 sees only the end of the connection."""
    log = io.StringIO()
    logger = make_logger(verbosity=4, stream=log)
    monkeypatch.setattr(servers, "silent_logger", lambda: logger)
    config = wanting(Authority(tmp_path, "ca"))
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(config) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", tls)
    assert '"TLS handshake failed" err="' in log.getvalue()
    assert "unable to get local issuer certificate" in log.getvalue()


async def test_without_authorities_no_certificate_is_asked(tmp_path: Path) -> None:
    """So the token of a client that has one counts."""
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(closed(), client=Reviewed().client) as url:
        assert (await get(f"{url}/metrics", tls, GOOD))[0] == 200
        assert (await get(f"{url}/metrics", tls))[0] == 403


async def test_a_foreign_certificate_is_that_of_no_front_proxy(tmp_path: Path) -> None:
    config = closed(proxies=Authority(tmp_path, "proxies"), skip_lookup=True)
    tls = with_foreign(tmp_path, ssl.TLSVersion.TLSv1_3)
    async with serving(config) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", tls, HEADERS)


async def test_a_certificate_that_has_ended_is_refused(tmp_path: Path) -> None:
    clients = Authority(tmp_path, "ca")
    clients._until = ENDED
    ended = clients.issue("ended", "admin", "system:masters")
    async with serving(wanting(clients)) as url:
        with pytest.raises(aiohttp.ClientError):
            await get(f"{url}/metrics", trusting(pair=ended))
