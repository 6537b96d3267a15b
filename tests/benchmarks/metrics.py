"""The metrics that a manager serves at /metrics."""

from pathlib import Path
from typing import Final

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

_DENIED: Final = (401, 403, 404)


async def read_metrics(port: int, token: str) -> dict[str, float]:
    """Return the sum of all series of each name.

    The request has a bearer token. The result is empty if the manager serves no
    metrics, or does not serve them to the token's user.
    """
    headers = {"authorization": f"Bearer {token}"}
    url = f"https://127.0.0.1:{port}/metrics"
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector) as session:
        try:
            async with session.get(url, headers=headers) as answer:
                if answer.status in _DENIED:
                    return {}
                answer.raise_for_status()
                return sums(await answer.text())
        except aiohttp.ClientConnectorError:
            return {}


def token_in(kubeconfig: Path) -> str:
    """Return the bearer token of a kubeconfig's first user."""
    token: str = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]
    return token


def sums(text: str) -> dict[str, float]:
    """Return the sum of all series of each name in Prometheus' text format."""
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals
