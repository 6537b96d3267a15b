"""Single checks, their metrics, the log's verbosity, and pages as objects."""

import asyncio
import io
import json
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from controller_manager.observability.logs import make_logger
from controller_manager.options.config import AuthorizationConfig, GenericConfig
from controller_manager.options.gates import FeatureGates
from controller_manager.serving.connection import ConnectionLimits
from tests.serving import servers

RESULTS = "kubernetes_healthchecks_total"


async def ask(
    method: str, url: str, body: bytes = b"", accept: str = "*/*"
) -> tuple[int, str, str, str]:
    """Return the status, media type, header Warning and text of an answer."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, url, data=body, ssl=servers.trusting(), headers={"Accept": accept}
        ) as answer,
    ):
        headers = answer.headers
        return (
            answer.status,
            headers["Content-Type"],
            headers.get("Warning", ""),
            await answer.text(),
        )


async def samples(url: str) -> list[str]:
    _, text = await servers.get(f"{url}/metrics/slis")
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("endpoint", ["healthz", "livez", "readyz"])
async def test_each_check_has_a_path(endpoint: str) -> None:
    """A user who may read it sees why the check fails; an unknown check is 404."""
    async with servers.serving(checks=servers.ILL) as url:
        answers = [
            await servers.get(f"{url}/{endpoint}/{check}") for check in ("a", "b", "c")
        ]
    async with servers.serving(checks={}) as url:
        answers.append(await servers.get(f"{url}/{endpoint}/ping"))
    assert answers == [
        (200, "ok"),
        (500, "internal server error: has stopped\n"),
        (404, "404 page not found\n"),
        (200, "ok"),
    ]


async def test_the_path_of_a_check_is_not_open_to_all() -> None:
    """As upstream: the default of --authorization-always-allow-paths is /healthz."""
    config = servers.config_of(authorization=AuthorizationConfig())
    async with servers.serving(config) as url:
        assert (await servers.get(f"{url}/healthz"))[0] == 200
        assert (await servers.get(f"{url}/healthz/a"))[0] == 403
        assert (await servers.get(f"{url}/metrics/slis"))[0] == 403


async def test_probes_count_the_results_of_their_checks() -> None:
    """But not those that a probe excludes, nor a check that is asked for alone."""
    async with servers.serving(checks=servers.ILL) as url:
        assert await samples(url) == []
        await servers.get(f"{url}/healthz")
        await servers.get(f"{url}/healthz?exclude=b")
        await servers.get(f"{url}/readyz?exclude=a&verbose")
        await servers.get(f"{url}/livez/a")
        assert await samples(url) == [
            'kubernetes_healthcheck{name="a",type="healthz"} 1.0',
            'kubernetes_healthcheck{name="b",type="healthz"} 0.0',
            'kubernetes_healthcheck{name="b",type="readyz"} 0.0',
            f'{RESULTS}{{name="a",status="success",type="healthz"}} 2.0',
            f'{RESULTS}{{name="b",status="error",type="healthz"}} 1.0',
            f'{RESULTS}{{name="b",status="error",type="readyz"}} 1.0',
        ]
        _, text = await servers.get(f"{url}/metrics")
        assert "kubernetes_healthcheck" not in text
        answer = await ask("DELETE", f"{url}/metrics/slis")
        assert answer == (200, "text/plain; charset=utf-8", "", "metrics reset\n")
        assert await samples(url) == []


TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", TEXT),
        ("application/json", TEXT),
        ("application/openmetrics-text", OPEN_METRICS),
        ("text/plain;q=0.5, application/openmetrics-text;version=1.0.0", OPEN_METRICS),
        ("text/plain, application/openmetrics-text;version=1.0.0;q=0.9", TEXT),
        ("application/openmetrics-text;version=0.0.1, text/plain;q=0.5", TEXT),
        (PROMETHEUS_3, OPEN_METRICS),
    ],
)
async def test_a_scraper_chooses_the_format(accept: str, content_type: str) -> None:
    """Upstream has one format only."""
    async with servers.serving() as url:
        for path in ("metrics", "metrics/slis"):
            answer = await ask("GET", f"{url}/{path}", accept=accept)
            assert answer[:2] == (200, content_type)
            assert answer[3].endswith("# EOF\n") == (content_type == OPEN_METRICS)


VERBOSITY = "failed set klog.logging.verbosity"


@pytest.mark.parametrize(
    ("method", "body", "status", "text"),
    [
        ("PUT", b"4", 200, "successfully set klog.logging.verbosity to 4\n"),
        ("PUT", b"-1", 200, "successfully set klog.logging.verbosity to -1\n"),
        (
            "PUT",
            b"x",
            400,
            f'{VERBOSITY} x: strconv.ParseInt: parsing "x": invalid syntax\n',
        ),
        (
            "PUT",
            b"",
            400,
            f'{VERBOSITY} : strconv.ParseInt: parsing "": invalid syntax\n',
        ),
        (
            "PUT",
            b"4\n",
            400,
            f'{VERBOSITY} 4\n: strconv.ParseInt: parsing "4\\n": invalid syntax\n',
        ),
        (
            "PUT",
            b"2147483648",
            400,
            (
                f"{VERBOSITY} 2147483648: strconv.ParseInt: parsing "
                '"2147483648": value out of range\n'
            ),
        ),
        ("GET", b"", 406, "unsupported http method\n"),
        ("POST", b"4", 406, "unsupported http method\n"),
    ],
)
async def test_the_verbosity_is_set_by_a_request(
    method: str, body: bytes, status: int, text: str
) -> None:
    """In upstream's words."""
    async with servers.serving() as url:
        answer = await ask(method, f"{url}/debug/flags/v", body)
    assert answer == (status, "text/plain", "", text)


async def test_a_body_that_does_not_arrive_ends_its_connection() -> None:
    """Else a client that stops to send keeps a connection for ever."""
    limits = ConnectionLimits(body=0.1)
    async with servers.serving(limits=limits) as url, asyncio.timeout(5):
        port = urlsplit(url).port
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=servers.trusting()
        )
        header = b"PUT /debug/flags/v HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
        writer.write(header + b"4")
        answer = await reader.read()
        writer.close()
    head, _, text = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert text == b"the body did not arrive within 0.1 s\n"


async def test_a_body_of_more_than_256_kib_is_refused() -> None:
    """A handler that reads it would hold it in memory."""
    async with servers.serving() as url:
        answers = [
            await ask("PUT", f"{url}/debug/flags/v", b" " * size)
            for size in (256 * 1024, 256 * 1024 + 1)
        ]
    assert [answer[0] for answer in answers] == [400, 413]
    assert answers[1][3] == "Request Entity Too Large\n"


async def test_a_number_of_thousands_of_digits_is_out_of_range() -> None:
    """Python refuses to read it as a number."""
    async with servers.serving() as url:
        answer = await ask("PUT", f"{url}/debug/flags/v", b"9" * 10_000)
    assert (answer[0], answer[3][-20:]) == (400, " value out of range\n")


def test_the_verbosity_is_that_of_all_loggers() -> None:
    """Of those that were bound before, too; levels of modules stay."""
    log = io.StringIO()
    root = make_logger(stream=log, vmodule=[("test_endpoints", 1)])
    bound = root.bind(component="a")
    bound.v(1).info("by its module")
    bound.v(4).info("too detailed")
    root.set_verbosity(4)
    bound.v(4).info("detailed")
    root.set_verbosity(0)
    bound.v(4).info("too detailed again")
    bound.v(1).info("by its module again")
    messages = [line.split('"')[1] for line in log.getvalue().splitlines()]
    assert messages == ["by its module", "detailed", "by its module again"]


async def test_the_pages_of_flags_are_listed_with_profiling_only() -> None:
    """As upstream."""
    async with servers.serving() as url:
        for path in ("/debug/flags", "/debug/flags/", "/debug/flags/other"):
            status, text = await servers.get(url + path)
            assert (status, "<tr>v<br>" in text) == (200, True)
    config = servers.config_of(generic=GenericConfig(profiling=False))
    async with servers.serving(config) as url:
        answer = await ask("PUT", f"{url}/debug/flags/v", b"4")
    assert (answer[0], answer[3]) == (404, "404 page not found\n")


async def test_only_some_may_set_the_verbosity() -> None:
    server = servers.server_of(servers.config_of(authorization=AuthorizationConfig()))
    await server.start()
    url = f"https://127.0.0.1:{server.port}/debug/flags/v"
    status, _, _, text = await ask("PUT", url, b"4")
    await server.close()
    assert (status, json.loads(text)["message"]) == (
        403,
        'forbidden: User "system:anonymous" cannot put path "/debug/flags/v"',
    )


DEPRECATED = (
    '299 - "This version of the {} endpoint is deprecated. Please use a newer version."'
)


def read(media_type: str, text: str) -> Any:
    return yaml.safe_load(text) if media_type.endswith("yaml") else json.loads(text)


@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_pages_are_objects_on_request(media_type: str, version: str) -> None:
    accept = f"{media_type};v={version};g=config.k8s.io;as="
    async with servers.serving(servers.config_of(flags={"v": "2", "a": ""})) as url:
        flags = await ask("GET", f"{url}/flagz", accept=f"{accept}Flagz")
        status = await ask("GET", f"{url}/statusz", accept=f"{accept}Statusz")
    is_old = version == "v1alpha1"
    assert [each[:3] for each in (flags, status)] == [
        (200, media_type, DEPRECATED.format(page) if is_old else "")
        for page in ("flagz", "statusz")
    ]
    assert read(media_type, flags[3]) == {
        "kind": "Flagz",
        "apiVersion": f"config.k8s.io/{version}",
        "metadata": {"name": "kube-controller-manager"},
        "flags": {"a": "", "v": "2"},
    }
    shown = read(media_type, status[3])
    assert {name: shown[name] for name in ("kind", "startTime", "paths")} == {
        "kind": "Statusz",
        "startTime": f"{servers.STARTED:%Y-%m-%dT%H:%M:%SZ}",
        "paths": ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"],
    }


WHOLE = "v=v1beta1;g=config.k8s.io;as=Statusz"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/plain; charset=utf-8"),
        ("*/*", "text/plain; charset=utf-8"),
        ("text/*", "text/plain; charset=utf-8"),
        ("text/plain;charset=utf-8", "text/plain; charset=utf-8"),
        (f"*/*;{WHOLE}", "application/json"),
        (f"text/plain;q=0.5,application/yaml;{WHOLE}", "application/yaml"),
        (f"*/*,application/yaml;{WHOLE}", "application/yaml"),
        (f"application/json;q=0.1;{WHOLE},text/plain", "text/plain; charset=utf-8"),
        (
            f"application/json;{WHOLE.replace('v1beta1', 'v2')},*/*",
            "text/plain; charset=utf-8",
        ),
        ("application/json", None),
        ("application/json;v=v1beta1;g=config.k8s.io", None),
        (f"application/json;{WHOLE.replace('Statusz', 'Flagz')}", None),
        (f"application/vnd.kubernetes.protobuf;{WHOLE}", None),
        (f"application/cbor;{WHOLE}", None),
        (f"text/plain;{WHOLE}", None),
        ("application/xml", None),
    ],
)
async def test_a_page_has_several_forms(accept: str, media_type: str | None) -> None:
    async with servers.serving() as url:
        status, found, _, text = await ask("GET", f"{url}/statusz", accept=accept)
    if media_type is not None:
        assert (status, found) == (200, media_type)
        return
    assert (status, found) == (406, "application/json")
    answer = json.loads(text)
    offered = [
        f"application/{form};v={version};g=config.k8s.io;as=Statusz"
        for form in ("json", "yaml")
        for version in ("v1beta1", "v1alpha1")
    ]
    assert answer == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": (
            "only the following media types are accepted: "
            + ", ".join(["text/plain", *offered])
        ),
        "reason": "NotAcceptable",
        "code": 406,
    }


async def test_statusz_lists_flagz_if_it_is_served() -> None:
    """Upstream lists neither /statusz nor the paths below /debug."""
    config = servers.config_of(features=FeatureGates({"ComponentFlagz": False}))
    async with servers.serving(config) as url:
        _, text = await servers.get(f"{url}/statusz")
    assert text.splitlines()[-1] == "Paths: /configz /healthz /livez /metrics /readyz"
