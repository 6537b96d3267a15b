"""Templates are equal by their meaning, as apimachinery's equality.Semantic says."""

import copy
import json
from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller_manager.api.core.pod_templates import (
    canonical_amount,
    canonical_spec,
    canonical_template,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity

TEMPLATE: JSON = yaml.safe_load("""
metadata: {labels: {app: web, divisor: '1', sizeLimit: 1k}}
spec:
  overhead: {cpu: AMOUNT}
  resources: {limits: {cpu: AMOUNT}, requests: {cpu: AMOUNT}}
  containers:
    - name: c
      image: app:v1
      resources: {limits: {memory: AMOUNT}, claims: [{name: d}]}
      env:
        - name: CPUS
          valueFrom: &divided
            resourceFieldRef: {resource: limits.cpu, divisor: AMOUNT}
  initContainers: [{name: i, resources: {requests: {example.com/x: AMOUNT}}}]
  volumes:
    - {name: scratch, emptyDir: {sizeLimit: AMOUNT}}
    - name: own
      ephemeral:
        volumeClaimTemplate: {spec: {resources: {requests: {storage: AMOUNT}}}}
    - {name: info, downwardAPI: {items: [{<<: *divided, path: p}]}}
    - name: all
      projected: {sources: [{downwardAPI: {items: [{<<: *divided, path: p}]}}]}
""")
"""A template with every place in which a pod may have a quantity."""


def written(amount: str) -> JSON:
    template: JSON = json.loads(json.dumps(TEMPLATE).replace("AMOUNT", amount))
    return template


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1Gi", "1073741824", True),
        ("0.5", "500m", True),
        ("1e3", "1k", True),
        ("1000m", "1", True),
        ("1024Mi", "1Gi", True),
        ("1Gi", "1G", False),
        ("1Gi", "1073741825", False),
        ("500m", "501m", False),
    ],
)
def test_amounts_are_compared(one: str, other: str, *, equal: bool) -> None:
    """Wherever they stand; upstream ignores their format."""
    same = canonical_template(written(one)) == canonical_template(written(other))
    assert same is equal


def test_what_only_looks_like_a_quantity_is_compared_as_it_is() -> None:
    """A label is a text, also if its name is that of a resource."""
    other = written("1")
    other["metadata"]["labels"]["divisor"] = "1000m"
    assert canonical_template(written("1")) != canonical_template(other)


def test_null_and_empty_are_absent_but_an_empty_struct_of_a_pointer_is_not() -> None:
    """An empty `emptyDir` is a volume."""
    sparse: JSON = {
        "metadata": {"creationTimestamp": None, "labels": {}, "annotations": None},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": {}}, "env": []}],
            "nodeSelector": {},
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }
    plain: JSON = {
        "metadata": {},
        "spec": {
            "containers": [{"name": "c"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }
    assert canonical_template(sparse) == canonical_template(plain)
    plain["spec"]["volumes"] = [{"name": "v"}]
    assert canonical_template(sparse) != canonical_template(plain)


@pytest.mark.parametrize("empty", [{}, {"limits": {}, "requests": None}])
def test_empty_resources_are_absent_but_for_the_pods(empty: JSON) -> None:
    """In Go only the latter are a pointer; they may decide about the QoS class."""

    def canonical(resources: JSON, of_pod: JSON) -> JSON:
        claim = {"spec": {"accessModes": ["ReadWriteOnce"], **resources}}
        volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}
        spec = {
            "containers": [{"name": "c", **resources}],
            "initContainers": [{"name": "i", **resources}],
            "volumes": [volume],
            **of_pod,
        }
        template = canonical_template({"metadata": {}, "spec": spec})
        assert canonical_spec(spec) == template["spec"]
        return template

    some: JSON = {"resources": empty}
    assert (
        canonical({}, {}) == canonical(some, {}) == canonical({}, {"resources": None})
    )
    assert canonical({}, {}) != canonical({}, some)
    assert canonical({}, some) == canonical(some, {"resources": {}})


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "none", "volumes": [1, None], "overhead": [], "resources": "x"},
        {"containers": [{"resources": {"limits": {"cpu": True, "memory": "much"}}}]},
        {"containers": [{"env": [{"valueFrom": "x"}], "resources": {"limits": 1}}]},
    ],
)
def test_impossible_data_are_compared_as_they_are(spec: JSON) -> None:
    """Somebody may have written a controller revision by hand."""
    template: JSON = {"metadata": {}, "spec": spec}
    again = copy.deepcopy(template)
    assert canonical_template(template) == canonical_template(again)
    assert template == again  # no controller has changed it


_DECIMAL = st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"])
_SCALES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_SCALES["E"] = 18


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """Draw two ways to write one amount: whole billionths below 2^63."""
    nanos = draw(st.integers(0, 2**63 - 1))
    found = []
    for _ in range(2):
        suffix = draw(_DECIMAL)
        number = Fraction(nanos, 10 ** (9 + _SCALES[suffix]))
        zeros = "0" * draw(st.integers(0, 3))
        exponent = draw(st.booleans()) and suffix != "E"
        end = f"e{_SCALES[suffix]}" if exponent else suffix
        found.append(f"{zeros}{_decimal(number)}{end}")
    first, second = found
    return first, second


def _decimal(number: Fraction) -> str:
    """Return the exact decimal expansion of a fraction whose divisor is 10^n."""
    places = 0
    while number.denominator != 1:
        number, places = number * 10, places + 1
    digits = str(number.numerator).rjust(places + 1, "0")
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}"


@given(spellings())
def test_every_way_to_write_an_amount_is_equal(pair: tuple[str, str]) -> None:
    one, other = pair
    assert parse_quantity(one) == parse_quantity(other)
    assert canonical_amount(one) == canonical_amount(other)
    assert canonical_template(written(one)) == canonical_template(written(other))


@given(st.integers(0, 2**60), st.sampled_from(["Ki", "Mi", "Gi"]))
def test_a_binary_suffix_is_a_number(number: int, suffix: str) -> None:
    """As long as the amount is below the largest that a binary suffix may have."""
    power = {"Ki": 10, "Mi": 20, "Gi": 30}[suffix]
    small = number >> power
    assert canonical_amount(f"{small}{suffix}") == canonical_amount(str(small << power))


@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_different_amounts_are_different_templates(nanos: int, more: int) -> None:
    one, other = f"{nanos}n", f"{Fraction(nanos + more, 1)}n"
    assert canonical_template(written(one)) != canonical_template(written(other))
