"""Base64 is refused where Go refuses it, with the place that Go names."""

import base64

import pytest

from controller_manager.devcluster.scheme.readers import base64_problem


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", None),
        ("YQ==", None),
        ("YWI=", None),
        ("YWJj\nYWJj\r\n", None),
        ("YQ=\n=", None),
        ("a b", 1),
        ("!", 0),
        ("abc", 0),
        ("YWJjYQ", 4),
        ("YQ=", 3),
        ("YQ=a", 2),
        ("Y===", 1),
        ("=", 0),
        ("YQ==YQ==", 4),
        ("YWI=a", 4),
        ("é", 0),
    ],
)
def test_base64_is_valid_where_go_decodes_it(text: str, place: int | None) -> None:
    expected = "" if place is None else f"illegal base64 data at input byte {place}"
    assert base64_problem(text) == expected
    if place is None:
        base64.b64decode(text)
