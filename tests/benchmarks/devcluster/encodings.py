"""Measure the encodings of objects, as multiples of the time that JSON takes."""

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from controller_manager.devcluster.scheme.decoding import decode_yaml, encode_yaml
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import decode, encode
from tests.benchmarks.devcluster.requests import Figures
from tests.benchmarks.server import idle_pod

_ROUNDS: Final = 5


def measure_encodings(number: int) -> Figures:
    """Return the cost of protobuf and YAML for so many pods, one at a time."""
    models = built_in()
    pods = [idle_pod(each) for each in range(number)]
    json = [msgspec.json.encode(pod) for pod in pods]
    yaml = [encode_yaml(body) for body in json]
    protobuf = [encode(pod, models) or b"" for pod in pods]
    encoded = _seconds(msgspec.json.encode, pods)
    decoded = _seconds(msgspec.json.decode, json)
    return {
        "protobuf, size / JSON": sum(map(len, protobuf)) / sum(map(len, json)),
        "protobuf, encoding / JSON": _seconds(lambda pod: encode(pod, models), pods)
        / encoded,
        "protobuf, decoding / JSON": _seconds(
            lambda body: decode(body, models), protobuf
        )
        / decoded,
        "YAML, encoding / JSON": _seconds(encode_yaml, json) / encoded,
        "YAML, decoding / JSON": _seconds(decode_yaml, yaml) / decoded,
    }


def _seconds(work: Callable[[Any], object], values: list[Any]) -> float:
    """Return the least time of several rounds, in which the ways are compared."""
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        for value in values:
            work(value)
        times.append(time.perf_counter() - began)
    return min(times)
