"""Google's protobuf and this one read each other's messages.

Its descriptors are made from the models, so only the wire format is compared.
"""

import base64
import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controller_manager.api.scalars import parse_rfc3339
from controller_manager.devcluster.scheme.models import Model, Type, built_in
from controller_manager.devcluster.scheme.protobuf import Encoder
from controller_manager.devcluster.scheme.protobuf_decoder import Decoder
from tests.devcluster.scheme.objects import Objects
from tests.devcluster.scheme.packages import models_by_package

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool")
message_factory = pytest.importorskip("google.protobuf.message_factory")

MODELS = built_in()
PACKAGES = models_by_package(MODELS)
FIELD = descriptor_pb2.FieldDescriptorProto
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
SCHEMA = Type(ref=f"{EXTENSIONS}.JSONSchemaProps")
TEXT, NUMBER, NUMBER_32 = (
    Type(type="string"),
    Type(type="integer", format="int64"),
    Type(type="integer", format="int32"),
)
JSON_TEXT = {1: ("raw", Type(type="string", format="byte"))}
TIME = {1: ("seconds", NUMBER), 2: ("nanos", NUMBER_32)}
LIST = "ExtraValue"
SPECIAL: dict[str, dict[int, tuple[str, Type]]] = {
    "Time": TIME,
    "MicroTime": TIME,
    "Quantity": {1: ("string", TEXT)},
    "IntOrString": {1: ("type", NUMBER), 2: ("intVal", NUMBER_32), 3: ("strVal", TEXT)},
    "FieldsV1": JSON_TEXT,
    "JSON": JSON_TEXT,
    "RawExtension": JSON_TEXT,
    LIST: {1: ("items", Type(items=TEXT))},
    "Verbs": {1: ("items", Type(items=TEXT))},
    "JSONSchemaPropsOrArray": {1: ("schema", SCHEMA), 2: ("all", Type(items=SCHEMA))},
    "JSONSchemaPropsOrBool": {
        1: ("allows", Type(type="boolean")),
        2: ("schema", SCHEMA),
    },
    "JSONSchemaPropsOrStringArray": {
        1: ("schema", SCHEMA),
        2: ("property", Type(items=TEXT)),
    },
}
"""The messages of the types that have a form of their own in JSON."""


def short(name: str) -> str:
    return name.rpartition(".")[2]


def message_name(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def declare(message: Any, number: int, name: str, of: Type) -> None:
    """Add a field to the descriptor of a message."""
    field = message.field.add(name=name, number=number, label=FIELD.LABEL_OPTIONAL)
    if of.values is not None:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        declare(entry, 1, "key", TEXT)
        is_list = of.values.items is not None
        declare(entry, 2, "value", Type(ref=LIST) if is_list else of.values)
        field.label, field.type = FIELD.LABEL_REPEATED, FIELD.TYPE_MESSAGE
        field.type_name = f"{message.name}.{entry.name}"
        return
    if of.items is not None:
        field.label, of = FIELD.LABEL_REPEATED, of.items
    if of.ref:
        field.type, field.type_name = FIELD.TYPE_MESSAGE, message_name(of.ref)
        return
    names = {"integer": of.format, "boolean": "bool", "number": "double"}
    scalar = names.get(of.type, "bytes" if of.format == "byte" else "string")
    field.type = getattr(FIELD, f"TYPE_{scalar.upper()}")


def declare_model(message: Any, model: Model, place: tuple[int, ...]) -> None:
    """Add the fields of a model, and of the messages that are embedded in it."""
    for where, (_, field) in model.by_number.items():
        if where[:-1] == place:
            declare(message, field.number, f"f{field.number}", field)
    for each in model.embedded:
        if each[:-1] == place:
            inner = message.nested_type.add(name=f"Inline{each[-1]}")
            message.field.add(
                name=f"inline{each[-1]}",
                number=each[-1],
                label=FIELD.LABEL_OPTIONAL,
                type=FIELD.TYPE_MESSAGE,
                type_name=inner.name,
            )
            declare_model(inner, model, each)


def messages() -> dict[str, Any]:
    """Return the classes that Google's protobuf makes for all models."""
    file = descriptor_pb2.FileDescriptorProto(name="models.proto", syntax="proto2")
    for name in (*MODELS, LIST):
        message = file.message_type.add(name=message_name(name))
        for number, (field, of) in SPECIAL.get(short(name), {}).items():
            declare(message, number, field, of)
        if short(name) not in SPECIAL:
            declare_model(message, MODELS.model(name), ())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(message_name(name))
        )
        for name in MODELS
    }


MESSAGES = messages()


def special(name: str, value: Any) -> dict[str, Any]:
    """Return the fields of a message whose type has a form of its own in JSON."""
    match name:
        case "Time" | "MicroTime":
            since = parse_rfc3339(value) - datetime.fromtimestamp(0, UTC)
            micros = since % timedelta(seconds=1) // timedelta(microseconds=1)
            seconds = since // timedelta(seconds=1)
            return {"seconds": seconds, "nanos": micros * 1000}
        case "Quantity":
            return {"string": value}
        case "IntOrString":
            is_text = isinstance(value, str)
            number, text = (0, value) if is_text else (value, "")
            return {"type": int(is_text), "intVal": number, "strVal": text}
        case "FieldsV1" | "JSON" | "RawExtension":
            text = base64.b64encode(msgspec.json.encode(value)).decode()
            return {"raw": text}
        case _ if name in (LIST, "Verbs"):
            return {"items": value}
    if isinstance(value, bool):
        return {"allows": value}
    if isinstance(value, list):
        return {"all" if name.endswith("OrArray") else "property": value}
    more = {"allows": True} if name.endswith("OrBool") else {}
    return {**more, "schema": value}


def fill(message: Any, name: str, value: Any) -> None:
    """Set the fields of a message to those of a value of a model."""
    if short(name) in SPECIAL:
        given = special(short(name), value)
        for part, of in SPECIAL[short(name)].values():
            if part in given:
                put(message, part, of, given[part])
        return
    model = MODELS.model(name)
    for place in sorted(model.embedded, key=len):
        embedded(message, place).SetInParent()
    for where, (field_name, field) in model.by_number.items():
        if field_name in value:
            holder = embedded(message, where[:-1])
            put(holder, f"f{field.number}", field, value[field_name])


def embedded(message: Any, place: tuple[int, ...]) -> Any:
    for number in place:
        message = getattr(message, f"inline{number}")
    return message


def put(message: Any, name: str, of: Type, value: Any) -> None:
    """Set a field."""
    if of.values is not None:
        entries = getattr(message, name)
        inner = of.values if of.values.items is None else Type(ref=LIST)
        for key, each in value.items():
            if inner.ref:
                entries[key].SetInParent()
                fill(entries[key], inner.ref, each)
            else:
                entries[key] = scalar(inner, each)
    elif of.items is not None:
        for each in value:
            if of.items.ref:
                fill(getattr(message, name).add(), of.items.ref, each)
            else:
                getattr(message, name).append(scalar(of.items, each))
    elif of.ref:
        getattr(message, name).SetInParent()
        fill(getattr(message, name), of.ref, value)
    else:
        setattr(message, name, scalar(of, value))


def scalar(of: Type, value: Any) -> Any:
    return base64.b64decode(value) if of.format == "byte" else value


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_google_s_protobuf_agrees_about_every_model(package: str) -> None:
    """It reads our bytes as its own message, and we read its bytes as the object."""
    for name, seed in itertools.product(PACKAGES[package], range(3)):
        value = Objects(MODELS, random.Random(seed)).of(name)
        ours = Encoder(MODELS).message(name, value)
        wanted = MESSAGES[name]()
        fill(wanted, name, value)
        theirs = wanted.SerializeToString(deterministic=True)
        assert MESSAGES[name].FromString(ours) == wanted, (name, seed)
        assert len(theirs) == len(ours), (name, seed)
        assert Decoder(MODELS).message(name, theirs) == value, (name, seed)
