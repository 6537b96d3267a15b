"""Missing data of a token secret are added; other data stay."""

import pytest
from msgspec.structs import replace

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SERVICE_ACCOUNT_TOKEN,
    Secret,
    encoded,
)
from controller_manager.api.core.v1 import ObjectReference, ServiceAccount
from controller_manager.api.meta import ObjectMeta
from controller_manager.controllers.identity.tokens.controller import TokenSigner
from controller_manager.controllers.identity.tokens.secrets import (
    account_uid,
    completed,
    is_for,
    without_reference,
)
from tests.controllers.identity.tokens.keys import elliptic_key

ROBOT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="web", uid="U"))
OTHER = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="web", uid="V"))
SIGNED = TokenSigner(elliptic_key()).sign(ROBOT, "tok")

BOTH = {ACCOUNT_NAME: "robot", ACCOUNT_UID: "U"}
WHOLE = {
    "ca.crt": encoded("CA"),
    "namespace": encoded("web"),
    "token": encoded("TOKEN"),
}


def _secret(data: dict[str, str], annotations: dict[str, str] = BOTH) -> Secret:
    metadata = ObjectMeta(name="tok", namespace="web", annotations=annotations)
    return Secret(metadata=metadata, data=data, type=SERVICE_ACCOUNT_TOKEN)


def _without(*keys: str, **others: str) -> dict[str, str]:
    return {key: value for key, value in WHOLE.items() if key not in keys} | others


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, WHOLE, id="nothing there"),
        pytest.param(_without("token"), WHOLE, id="no token"),
        pytest.param(_without(token=""), WHOLE, id="an empty token"),
        pytest.param(_without("namespace"), WHOLE, id="no namespace"),
        pytest.param(_without("ca.crt"), WHOLE, id="no authority"),
        pytest.param(_without(**{"ca.crt": "eA=="}), WHOLE, id="a wrong authority"),
        pytest.param(
            _without("token", more="eA=="), {**WHOLE, "more": "eA=="}, id="more"
        ),
        pytest.param(
            _without("ca.crt", token="eA=="),
            {**WHOLE, "token": "eA=="},
            id="a wrong token stays",
        ),
        pytest.param(
            _without("token", namespace="eA=="),
            {**WHOLE, "namespace": "eA=="},
            id="a wrong namespace stays",
        ),
    ],
)
@pytest.mark.parametrize(
    "annotations", [BOTH, {ACCOUNT_NAME: "robot"}, {**BOTH, "mine": "1"}]
)
def test_missing_data_are_added(
    before: dict[str, str], after: dict[str, str], annotations: dict[str, str]
) -> None:
    """With both annotations; other data and annotations stay."""
    found = completed(_secret(before, annotations), ROBOT, "CA", lambda: "TOKEN")
    assert found == _secret(after, {**annotations, **BOTH})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(WHOLE, id="complete"),
        pytest.param(_without(token="eA=="), id="a wrong token"),
        pytest.param(_without(namespace="eA=="), id="a wrong namespace"),
    ],
)
def test_a_secret_that_lacks_nothing_is_left_alone(data: dict[str, str]) -> None:
    """Also without the annotation of the uid: it returns only with a repair."""
    never = pytest.fail
    for annotations in (BOTH, {ACCOUNT_NAME: "robot"}):
        secret = _secret(data, annotations)
        assert completed(secret, ROBOT, "CA", lambda: never("signed")) is None


def test_without_an_authority_of_the_managers_that_of_a_secret_stays() -> None:
    """Upstream compares only if it has one."""
    assert completed(_secret(_without("ca.crt")), ROBOT, "", lambda: "") is None
    kept = _without(**{"ca.crt": "eA=="})
    assert completed(_secret(kept), ROBOT, "", lambda: "") is None


@pytest.mark.parametrize(
    ("annotations", "data", "uid"),
    [
        pytest.param(BOTH, {}, "U", id="annotated"),
        pytest.param({ACCOUNT_NAME: "robot"}, {}, "", id="not annotated"),
        pytest.param({**BOTH, ACCOUNT_UID: ""}, {}, "", id="annotated as empty"),
        pytest.param(
            {ACCOUNT_NAME: "robot"},
            {"token": encoded(SIGNED)},
            "",
            id="only its token names a uid",
        ),
        pytest.param(
            {ACCOUNT_NAME: "robot", ACCOUNT_UID: "W"},
            {"token": encoded(SIGNED)},
            "W",
            id="annotated otherwise",
        ),
    ],
)
def test_a_secret_is_for_the_account_of_its_annotations(
    annotations: dict[str, str], data: dict[str, str], uid: str
) -> None:
    """Its token says nothing: anybody can write one, and a user may need the secret."""
    secret = _secret(data, annotations)
    assert account_uid(secret) == uid
    assert is_for(secret, ROBOT) is (uid in ("", "U"))
    assert is_for(secret, OTHER) is (uid == "")
    assert not is_for(secret, replace(ROBOT, metadata=ObjectMeta(name="x", uid="U")))


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        (("tok", "keep"), ("keep",)),
        (("tok", "tok"), None),
        (("tok",), None),
    ],
)
def test_a_reference_goes_and_the_others_stay(
    listed: tuple[str, ...], left: tuple[str, ...] | None
) -> None:
    """Each that has the name; an empty list is no list."""
    account = replace(ROBOT, secrets=tuple(ObjectReference(name=n) for n in listed))
    wanted = tuple(ObjectReference(name=n) for n in left) if left else None
    assert without_reference(account, "tok") == replace(ROBOT, secrets=wanted)


def test_an_account_without_the_reference_is_not_written() -> None:
    """It may have no list at all."""
    assert without_reference(ROBOT, "tok") is None
    account = replace(ROBOT, secrets=(ObjectReference(name="keep"),))
    assert without_reference(account, "tok") is None


def test_the_repr_of_a_secret_does_not_show_its_data() -> None:
    """An error that names it must not give its token away."""
    secret = _secret(WHOLE)
    assert repr(secret) == str(secret) == "Secret('web/tok')"
    assert WHOLE["token"] not in f"{[secret]} {secret!r}"
