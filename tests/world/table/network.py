"""Services, what they lead to, and the ranges of their addresses."""

from typing import Final

from controller_manager.api.json_objects import JSON
from tests.controllers.network.servicecidr.builders import address_json

from .row import Change, Parts, Rng, Row, label, named, number, selecting, sets


def _service(name: str, rng: Rng) -> Parts:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    spec: JSON = {"ports": ports, "selector": {"app": name}}
    if rng.random() < 0.3:
        spec["clusterIP"] = "None"
    deployment = {"replicas": rng.randrange(1, 5), **selecting(name)}
    return [
        ("deployments", named(name, deployment)),
        ("services", named(name, spec)),
    ]


def _set_port(obj: JSON, rng: Rng) -> None:
    obj["spec"]["ports"][0]["targetPort"] = rng.choice((8080, 9090))


def _select(obj: JSON, rng: Rng) -> None:
    selector = obj["spec"]["selector"]
    obj["spec"]["selector"] = {"app": selector["app"]}
    if rng.random() < 0.5:
        obj["spec"]["selector"]["team"] = "x"


def _publish_all(obj: JSON, _: Rng) -> None:
    obj["spec"]["publishNotReadyAddresses"] = True


SERVICES: Final = Row(
    "services",
    _service,
    names=("cart", "till"),
    changes={
        "scale": Change("deployments", sets(replicas=number(0, 6)), weight=2),
        "port": Change("services", _set_port),
        "label": Change("services", label),
        "selector": Change("services", _select),
        "publish": Change("services", _publish_all),
    },
    replaced=2,
    leaves=(("endpoints", "{name}"),),
    weight=2,
)


def _subsets(rng: Rng) -> list[JSON]:
    ips = [f"192.168.0.{each}" for each in range(5)]
    ports = [{"name": "a", "port": 1000 + rng.randrange(3), "protocol": "TCP"}]
    addresses = [{"ip": each} for each in rng.sample(ips, rng.randrange(1, 5))]
    subsets: list[JSON] = [{"addresses": addresses, "ports": ports}]
    if rng.random() < 0.4:
        # An address with two ports of one name.
        ports = [{**ports[0], "port": 1010}]
        subsets.append({"addresses": addresses[:1], "ports": ports})
    return subsets


def _by_hand(name: str, rng: Rng) -> Parts:
    return [
        ("services", named(name, {"ports": [{"port": 25}]})),
        ("endpoints", named(name, subsets=_subsets(rng))),
    ]


def _set_subsets(obj: JSON, rng: Rng) -> None:
    obj["subsets"] = _subsets(rng)


def _skip(obj: JSON, rng: Rng) -> None:
    obj["metadata"]["labels"] = {
        "endpointslice.kubernetes.io/skip-mirror": rng.choice(("true", "false"))
    }


MIRRORED: Final = Row(
    "endpoints by hand",
    _by_hand,
    names=("ledger", "mail"),
    changes={
        "subsets": Change("endpoints", _set_subsets, weight=3),
        "label": Change("endpoints", label),
        "skip": Change("endpoints", _skip),
    },
)


def _range(name: str, _: Rng) -> Parts:
    """Return a range, and an address in it; both ranges overlap."""
    cidr, address = {
        "small": ("172.29.1.0/24", "172.29.1.7"),
        "large": ("172.29.0.0/16", "172.29.2.7"),
    }[name]
    return [
        ("servicecidrs", named(name, {"cidrs": [cidr]})),
        ("ipaddresses", address_json(address)),
    ]


RANGES: Final = Row("servicecidrs", _range, names=("small", "large"), replaced=3)

ROWS: Final[tuple[Row, ...]] = (SERVICES, MIRRORED, RANGES)
