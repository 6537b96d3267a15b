"""Names of images are valid or not as for containerd."""

import pytest

from controller_manager.devcluster.kubelet.machine import (
    full_name,
    is_broken,
    why_invalid,
)

DIGEST = f"sha256:{'a' * 64}"
INVALID = "invalid reference format"


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("me/app:v1", "docker.io/me/app:v1"),
        ("example.com/a/b__c-d.e", "example.com/a/b__c-d.e:latest"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("localhost/app:v1", "localhost/app:v1"),
        (f"app@{DIGEST}", f"docker.io/library/app@{DIGEST}"),
        (f"app:v1@{DIGEST}", f"docker.io/library/app:v1@{DIGEST}"),
    ],
)
def test_a_name_gets_its_registry_and_its_tag(image: str, full: str) -> None:
    assert (why_invalid(image), full_name(image)) == ("", full)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("Nginx", f"{INVALID}: repository name (library/Nginx) must be lowercase"),
        ("me/App:v1", f"{INVALID}: repository name (me/App) must be lowercase"),
        ("a b", INVALID),
        ("app:", INVALID),
        ("app:v1:v2", INVALID),
        ("-app", INVALID),
        ("app@sha256:abc", INVALID),
        ("a" * 2000, "repository name must not be more than 255 characters"),
    ],
)
def test_a_wrong_name_is_no_image(image: str, why: str) -> None:
    assert why_invalid(image) == why


@pytest.mark.parametrize(
    ("image", "missing"),
    [
        ("broken", True),
        ("example.com/broken:v1", True),
        ("example.invalid/app", True),
        ("web:404", True),
        ("foo:non-existent", True),
        ("localhost/some-image-that-doesnt-exist", True),
        ("localhost/app", False),
        ("web:1.404", False),
        ("web:v404", False),
    ],
)
def test_some_images_cannot_be_pulled(image: str, *, missing: bool) -> None:
    assert bool(is_broken({"image": image})) is missing
