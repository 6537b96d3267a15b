"""The API server learns of webhooks, and only what has changed is written."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.admissionregistration.v1 import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from controller_manager.api.apiextensions import v1 as apiextensions_v1
from controller_manager.runtime.registry import Registry, RegistryError
from controller_manager.sdk import Descriptor, Validates, core_v1
from controller_manager.serving.certificates import self_signed
from controller_manager.testing import VirtualManager
from controller_manager.webhooks.registration import Registration
from tests.sdk.websites import WEBSITES
from tests.webhooks.hooks import BUILD, CONTROLLER, DEFINITION, check_website

DEFINITIONS = apiextensions_v1.CUSTOM_RESOURCE_DEFINITIONS
VALIDATING = (VALIDATING_WEBHOOK_CONFIGURATIONS, "", "website-operator")
MUTATING = (MUTATING_WEBHOOK_CONFIGURATIONS, "", "website-operator")
AUTHORITY = self_signed("x", ["x.svc"]).certificate
IN_CLUSTER = Registration(BUILD, "web")
OUTSIDE = Registration(BUILD, "web", "https://127.0.0.1:9443/")


@pytest.fixture
def own_controllers() -> Sequence[Descriptor]:
    return (replace(CONTROLLER, webhooks=(), definitions=()),)


async def registered(
    manager: VirtualManager, registration: Registration, authority: bytes = AUTHORITY
) -> list[str]:
    found = await registration.read(manager.client)
    return await registration.write(manager.client, found, authority)


async def versions(manager: VirtualManager) -> list[str]:
    definition = (DEFINITIONS, "", "websites.example.com")
    found = [
        await manager.client.get_json(*each)
        for each in (VALIDATING, MUTATING, definition)
    ]
    return [each["metadata"]["resourceVersion"] for each in found]


async def test_the_configurations_say_what_is_declared(manager: VirtualManager) -> None:
    """The definition, which is created later, is told where it is converted, too."""
    assert await registered(manager, IN_CLUSTER) == []
    (webhook,) = (await manager.client.get_json(*VALIDATING))["webhooks"]
    assert webhook["name"] == "check-website.websites.example.com"
    assert webhook["rules"] == [
        {
            "apiGroups": ["example.com"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["websites"],
            "scope": "*",
        }
    ]
    service = webhook["clientConfig"]["service"]
    assert service == {
        "namespace": "web",
        "name": "website-operator-webhooks",
        "path": "/validate/check-website.websites.example.com",
        "port": 443,
    }
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
    (mutating,) = (await manager.client.get_json(*MUTATING))["webhooks"]
    assert mutating["name"] == "pin-image.websites.example.com"
    manifest = DEFINITION.manifest("website-operator-webhooks", "elsewhere")
    await manager.client.apply(DEFINITIONS, manifest)
    assert await registered(manager, IN_CLUSTER) == []
    found = await manager.client.get_json(DEFINITIONS, "", "websites.example.com")
    client = found["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client["service"]["namespace"] == "web"
    assert client["service"]["path"] == "/convert/websites.example.com"
    assert client["caBundle"] == webhook["clientConfig"]["caBundle"]


async def test_only_what_differs_is_written(manager: VirtualManager) -> None:
    await manager.client.apply(DEFINITIONS, DEFINITION.manifest())
    assert await registered(manager, IN_CLUSTER) == []
    before = await versions(manager)
    assert await registered(manager, IN_CLUSTER) == []
    assert await versions(manager) == before
    assert await registered(manager, IN_CLUSTER, AUTHORITY * 2) == []
    assert all(map(str.__ne__, before, await versions(manager)))


async def test_what_others_have_changed_is_mended_and_what_they_add_stays(
    manager: VirtualManager,
) -> None:
    await registered(manager, IN_CLUSTER)
    found: Any = await manager.client.get_json(*VALIDATING)
    found["webhooks"][0]["clientConfig"]["caBundle"] = ""
    found["webhooks"][0]["timeoutSeconds"] = 3
    found["metadata"]["labels"] = {"team": "x"}
    await manager.client.update_json(VALIDATING[0], found)
    assert await registered(manager, IN_CLUSTER) == []
    mended: Any = await manager.client.get_json(*VALIDATING)
    assert mended["webhooks"][0]["clientConfig"]["caBundle"]
    assert mended["webhooks"][0]["timeoutSeconds"] == 3
    assert mended["metadata"]["labels"] == {"team": "x"}


async def test_a_process_moves_from_a_cluster_to_a_machine_and_back(
    manager: VirtualManager,
) -> None:
    """An object has a service or a URL, and never both."""
    await manager.client.apply(DEFINITIONS, DEFINITION.manifest())
    for registration, place in ((IN_CLUSTER, "service"), (OUTSIDE, "url")) * 2:
        assert await registered(manager, registration) == []
        (webhook,) = (await manager.client.get_json(*VALIDATING))["webhooks"]
        assert sorted(webhook["clientConfig"]) == ["caBundle", place]
    url = webhook["clientConfig"]["url"]
    assert url == "https://127.0.0.1:9443/validate/check-website.websites.example.com"


async def test_a_write_after_a_pause_brings_no_old_authority_back(
    manager: VirtualManager,
) -> None:
    """The objects were read before the secret, and have changed since."""
    await registered(manager, IN_CLUSTER)
    found = await IN_CLUSTER.read(manager.client)
    await registered(manager, IN_CLUSTER, AUTHORITY * 2)
    before: Any = await manager.client.get_json(*VALIDATING)
    problems = await IN_CLUSTER.write(manager.client, found, b"old")
    assert len(problems) == 2
    assert "ValidatingWebhookConfiguration website-operator: " in problems[0]
    assert await manager.client.get_json(*VALIDATING) == before


def test_pods_of_the_own_namespace_are_exempt() -> None:
    """Otherwise an operator that is down could not be started again."""
    webhook = Validates(core_v1.PODS, check_website)  # type: ignore[arg-type]
    settings = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    chosen = Validates(core_v1.PODS, check_website, settings=settings)  # type: ignore[arg-type]
    (own,), (other,) = (
        next(iter(Registration(build, "web").configurations()))[1]["webhooks"]
        for build in (
            Registry([replace(CONTROLLER, webhooks=(each,))])
            for each in (webhook, chosen)
        )
    )
    (expression,) = own["namespaceSelector"]["matchExpressions"]
    assert (expression["operator"], expression["values"]) == ("NotIn", ["web"])
    assert other["namespaceSelector"] == settings["namespaceSelector"]
    assert own["name"] == "check-website.pods.core"


def test_two_functions_of_one_name_are_refused() -> None:
    twice = (Validates(WEBSITES, check_website),) * 2
    with pytest.raises(RegistryError, match="give one of the functions another name"):
        Registry([replace(CONTROLLER, webhooks=twice)])
    with pytest.raises(ValueError, match="has no name; write its function with def"):
        Validates(WEBSITES, lambda _: None)
