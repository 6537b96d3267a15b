"""Large YAML is read and written as small YAML is, beside the event loop."""

import asyncio

import pytest

from controller_manager.devcluster.server.apimachinery.yaml_bodies import (
    YAMLBodyError,
    decode_yaml,
    encode_yaml,
)
from controller_manager.devcluster.server.apimachinery.yaml_process import (
    read_yaml,
    write_yaml,
)


def test_the_process_reads_a_document_as_the_server_does() -> None:
    document = b"2: a\ntrue: [x, 2.5, null, .inf]\nday: 2001-01-01\nb: !!binary aGk="
    read = asyncio.run(read_yaml(document))
    assert read == document
    assert decode_yaml(read) == decode_yaml(document)
    assert decode_yaml(read) is not decode_yaml(read)


@pytest.mark.parametrize("document", [b"a: [", b"[" * 1000, b"a: \xff"])
def test_the_process_finds_the_same_errors(document: bytes) -> None:
    messages = []
    for body in (document, asyncio.run(read_yaml(document))):
        with pytest.raises(YAMLBodyError) as caught:
            decode_yaml(body)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_the_process_writes_json_as_the_server_does() -> None:
    json = '{"a":[1,"é",{"b":null}],"c":"1"}'.encode()
    assert asyncio.run(write_yaml(json)) == encode_yaml(json)
