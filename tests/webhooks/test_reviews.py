"""The functions of controllers answer the reviews of an API server."""

from typing import Any

import pytest

from controller_manager.webhooks.reviews import BadReview
from tests.webhooks.hooks import (
    CONVERT,
    MUTATE,
    VALIDATE,
    admission,
    answer,
    conversion,
    review,
    reviews,
    website,
)


async def test_a_mutation_is_a_patch_of_what_has_changed() -> None:
    replaced = {"op": "replace", "path": "/spec/image", "value": "nginx:1"}
    assert await answer(MUTATE, admission(website(unknown=[1]))) == {
        "allowed": True,
        "patch": [replaced],
        "patchType": "JSONPatch",
    }
    assert await answer(MUTATE, admission(website("nginx:2"))) == {"allowed": True}
    refused = await answer(MUTATE, admission(website("refused")))
    assert refused["status"]["message"] == "this image is refused"


async def test_a_mutation_of_a_deletion_changes_nothing() -> None:
    assert await answer(MUTATE, admission(None, website())) == {"allowed": True}


async def test_a_refusal_has_the_errors_of_fields() -> None:
    image = {"field": "spec.image", "message": "is dear"}
    replicas = {"field": "spec.replicas", "message": "must be at most 10"}
    assert await answer(VALIDATE, admission(website(replicas=11))) == {
        "allowed": False,
        "status": {
            "code": 422,
            "reason": "Invalid",
            "message": "spec.replicas: must be at most 10; spec.image: is dear",
            "details": {
                "group": "example.com",
                "kind": "Website",
                "name": "shop",
                "causes": [
                    {"reason": "FieldValueInvalid", **each}
                    for each in (replicas, image)
                ],
            },
        },
    }


async def test_a_function_knows_the_old_object_the_user_and_a_dry_run() -> None:
    body = admission(website("b"), website("a"), dryRun=True)
    warnings = ["ann changes the image", "dry run of UPDATE"]
    assert await answer(VALIDATE, body) == {"allowed": True, "warnings": warnings}
    deleted = admission(None, website("a"), dryRun=True)
    warnings = ["dry run of DELETE"]
    assert await answer(VALIDATE, deleted) == {"allowed": True, "warnings": warnings}


@pytest.mark.parametrize(
    ("path", "image", "code", "message"),
    [
        (VALIDATE, "defect", 500, "check_website failed: KeyError: 'defect'"),
        (
            MUTATE,
            "none",
            500,
            "pin_image failed: TypeError: it returned a NoneType, and no Website",
        ),
    ],
)
async def test_a_function_that_raises_refuses_and_is_counted(
    path: str, image: str, code: int, message: str
) -> None:
    panics: list[str] = []
    response = await answer(path, admission(website(image)), panics)
    status = {"code": code, "reason": "InternalError", "message": message}
    assert response == {"allowed": False, "status": status}
    assert panics == [path]


@pytest.mark.looptime
async def test_a_function_that_takes_too_long_refuses_in_time() -> None:
    response = await answer(VALIDATE, admission(website("slow")))
    message = "check_website has taken longer than 9 s"
    status = {"code": 504, "reason": "Timeout", "message": message}
    assert response == {"allowed": False, "status": status}


async def test_an_object_of_another_type_is_refused() -> None:
    response = await answer(VALIDATE, admission(website(replicas="many")))
    problem = "Expected `int`, got `str` - at `$.spec.replicas`"
    assert response["status"]["message"] == f"the object is no Website: {problem}"
    assert response["status"]["code"] == 422


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        (VALIDATE, b"", "no review of version v1"),
        (VALIDATE, b"\xff", "no review of version v1"),
        (VALIDATE, b'{"kind":"AdmissionReview"}', "missing required field"),
        (VALIDATE, conversion("v1"), "wanted AdmissionReview of version v1, got Conv"),
        (
            VALIDATE,
            review("AdmissionReview", "admission.k8s.io/v1beta1", {"uid": "u"}),
            "got AdmissionReview admission.k8s.io/v1beta1",
        ),
    ],
)
async def test_what_is_no_review_is_told(path: str, body: bytes, problem: str) -> None:
    with pytest.raises(BadReview, match=problem):
        await reviews().answer(path, body, 10.0)


def old(name: str, tag: str = "") -> dict[str, Any]:
    spec = {"name": name, "tag": tag} if tag else {"name": name}
    metadata = {
        "name": "shop",
        "namespace": "default",
        "uid": "1",
        "labels": {"a": "b"},
    }
    head = {"apiVersion": "example.com/v1beta1", "kind": "Website"}
    return {**head, "metadata": metadata, "spec": spec}


async def test_objects_are_converted_with_their_metadata_and_defaults() -> None:
    """Of a list, each; a default of the class is written as an API server would."""
    body = conversion("example.com/v1", old("nginx", "2"), old("httpd"), website("x"))
    response = await answer(CONVERT, body)
    assert response["result"] == {"status": "Success"}
    assert [each["spec"] for each in response["convertedObjects"]] == [
        {"image": "nginx:2", "replicas": 1},
        {"image": "httpd", "replicas": 1},
        {"image": "x", "replicas": 1},
    ]
    assert response["convertedObjects"][0]["metadata"] == old("nginx")["metadata"]
    assert {each["apiVersion"] for each in response["convertedObjects"]} == {
        "example.com/v1"
    }


async def test_labels_may_be_changed_and_nothing_else() -> None:
    body = conversion("example.com/v1beta1", website("nginx:2"))
    (found,) = (await answer(CONVERT, body))["convertedObjects"]
    assert found["metadata"] == {**website()["metadata"], "labels": {"tag": "2"}}
    assert found["spec"] == {"name": "nginx", "tag": "2"}


async def test_a_version_without_functions_has_the_same_fields() -> None:
    body = conversion("example.com/v1alpha1", old("nginx", "2"))
    (found,) = (await answer(CONVERT, body))["convertedObjects"]
    assert found["apiVersion"] == "example.com/v1alpha1"
    body = conversion("example.com/v1beta1", found)
    (again,) = (await answer(CONVERT, body))["convertedObjects"]
    assert again["spec"] == {"name": "nginx", "tag": "2"}


@pytest.mark.parametrize(
    ("version", "obj", "problem", "is_defect"),
    [
        ("v1", old("none"), "v1beta1 to example.com/v1: no image", False),
        (
            "v1beta1",
            website("broken"),
            "v1 to example.com/v1beta1: AttributeError: 'Website' object has no",
            True,
        ),
        (
            "v1beta1",
            website("other"),
            "TypeError: the function returned a NoneType, and no OldWebsite",
            True,
        ),
        ("v7", website(), "there is no version example.com/v7; there is exam", False),
    ],
)
async def test_an_object_that_cannot_be_converted_is_named(
    version: str, obj: Any, problem: str, *, is_defect: bool
) -> None:
    panics: list[str] = []
    body = conversion(f"example.com/{version}", website("nginx:1"), obj)
    response = await answer(CONVERT, body, panics)
    assert response["result"]["status"] == "Failure"
    message = response["result"]["message"]
    assert message.startswith("Website default/shop: example.com/")
    assert problem in message
    assert panics == ([CONVERT] if is_defect else [])
