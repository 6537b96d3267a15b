"""Websites with webhooks of all sorts, and the reviews that an API server sends."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
from msgspec.structs import replace as with_fields

from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import silent_logger
from controller_manager.runtime.registry import Registry
from controller_manager.sdk import (
    AdmissionRequest,
    APIStruct,
    CompleteObject,
    Definition,
    FieldError,
    Mutates,
    Refused,
    Resource,
    Spoke,
    Validates,
)
from controller_manager.webhooks.reviews import Reviews
from tests.sdk import websites
from tests.sdk.websites import WEBSITES, Website


class OldSpec(APIStruct, frozen=True):
    """Has the image as two words."""

    name: str = "nginx"
    tag: str = ""


class OldWebsite(CompleteObject, frozen=True):
    """A website of former times."""

    spec: OldSpec = OldSpec()


OLD: Resource[OldWebsite] = Resource(
    "example.com", "v1beta1", "websites", "Website", OldWebsite
)
PLAIN: Resource[Website] = Resource(
    "example.com", "v1alpha1", "websites", "Website", Website
)


def to_hub(old: OldWebsite) -> Website:
    if old.spec.name == "none":
        msg = "no image"
        raise ValueError(msg)
    image = f"{old.spec.name}:{old.spec.tag}" if old.spec.tag else old.spec.name
    return Website(spec=websites.WebsiteSpec(image=image))


def from_hub(website: Website) -> OldWebsite:
    name, _, tag = website.spec.image.partition(":")
    if name == "broken":
        return website.no_such  # type: ignore[attr-defined,no-any-return]
    if name == "other":
        return None  # type: ignore[return-value]
    metadata = with_fields(website.metadata, labels={"tag": tag})
    spec = OldSpec(name=name, tag=tag)
    return OldWebsite(metadata=metadata if tag else OldWebsite().metadata, spec=spec)


DEFINITION = Definition(WEBSITES, versions=(Spoke(OLD, to_hub, from_hub), PLAIN))


def pin_image(request: AdmissionRequest[Website]) -> Website:
    website = request.object
    if website.spec.image == "refused":
        msg = "this image is refused"
        raise Refused(msg)
    if website.spec.image == "none":
        return None  # type: ignore[return-value]
    if ":" in website.spec.image:
        return website
    image = f"{website.spec.image}:1"
    return with_fields(website, spec=with_fields(website.spec, image=image))


async def check_website(request: AdmissionRequest[Website]) -> None:
    spec = request.object.spec
    if spec.image == "defect":
        raise KeyError(spec.image)
    if spec.image == "slow":
        await asyncio.sleep(60)
    if spec.replicas > 10:
        field = FieldError("spec.replicas", "must be at most 10")
        raise Refused(field, FieldError("spec.image", "is dear"))
    if request.old is not None and request.old.spec.image != spec.image:
        request.warnings.append(f"{request.user.username} changes the image")
    if request.dry_run:
        request.warnings.append(f"dry run of {request.operation}")


CONTROLLER = replace(
    websites.CONTROLLER,
    definitions=(DEFINITION,),
    webhooks=(
        Mutates(WEBSITES, pin_image),
        Validates(WEBSITES, check_website, on=("CREATE", "UPDATE", "DELETE")),
    ),
)
BUILD = Registry([CONTROLLER], component="website-operator")
MUTATE = "/mutate/pin-image.websites.example.com"
VALIDATE = "/validate/check-website.websites.example.com"
CONVERT = "/convert/websites.example.com"


def reviews(panicked: Callable[[], None] = lambda: None) -> Reviews:
    """Return what answers; no function uses its client."""
    client: Any = None
    return Reviews(BUILD, lambda _: client, Defects(silent_logger()), panicked)


def website(image: str = "nginx", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "shop", "namespace": "default", "uid": "1"},
        "spec": {"image": image, **spec},
    }


def admission(obj: Any, old: Any = None, **more: Any) -> bytes:
    """Return an AdmissionReview: of a creation, an update or a deletion."""
    operation = "CREATE" if old is None else "DELETE" if obj is None else "UPDATE"
    request = {
        "uid": "u",
        "name": "shop",
        "operation": operation,
        "object": obj,
        "oldObject": old,
        "userInfo": {"username": "ann", "groups": ["editors"]},
        **more,
    }
    return review("AdmissionReview", "admission.k8s.io/v1", request)


def conversion(version: str, *objects: Any) -> bytes:
    """Return a ConversionReview."""
    request = {"uid": "u", "desiredAPIVersion": version, "objects": objects}
    return review("ConversionReview", "apiextensions.k8s.io/v1", request)


def review(kind: str, api_version: str, request: Any) -> bytes:
    head = {"kind": kind, "apiVersion": api_version}
    return msgspec.json.encode({**head, "request": request})


async def answer(path: str, body: bytes, panics: list[str] | None = None) -> Any:
    """Return the response to a review; add its path if the function has panicked."""
    answering = reviews(lambda: panics.append(path) if panics is not None else None)
    found = msgspec.json.decode(await answering.answer(path, body, 10.0))
    response = found["response"]
    assert response.pop("uid") == "u"
    if not response.get("warnings"):
        response.pop("warnings", None)
    if "patch" in response:
        response["patch"] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return response
