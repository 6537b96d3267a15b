"""APIs that a part of the cluster answers without storage (kube-aggregator)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.apiserver.http.negotiation import header
from controller_manager.devcluster.apiserver.http.responses import json_response, table
from controller_manager.devcluster.scheme.query import is_true
from controller_manager.devcluster.scheme.statuses import method_not_allowed
from controller_manager.devcluster.storage import Stored

from .http.accepting import Form, wanted_form
from .rest.kind import Kind


class AggregatedAPI(Protocol):
    """A group version that is not stored and read only."""

    @property
    def group(self) -> str:
        """The group."""
        ...

    @property
    def version(self) -> str:
        """The version of the group."""
        ...

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds that discovery shows; objects of these kinds are not stored."""
        ...

    def answer(self, path: str, query: Mapping[str, str]) -> tuple[int, JSON]:
        """Return the status and the body of the answer to a GET."""
        ...


def aggregated(
    api: AggregatedAPI, resource: str, request: Request, now: datetime
) -> Response:
    """Answer a GET about a resource, as a Table if the request wants one.

    Raises Refusal 405 for all other requests.
    """
    query = dict(request.query)
    if request.method != "GET" or is_true(query, "watch"):
        raise method_not_allowed()
    status, body = api.answer(request.path, query)
    if status == 200:
        body = _in_form(api, resource, body, request, now)
    return json_response(status, body)


def _in_form(
    api: AggregatedAPI, resource: str, body: JSON, request: Request, now: datetime
) -> JSON:
    """Return an answer about a resource as a Table, if the request wants one."""
    kind = next((each for each in api.kinds if each.plural == resource), None)
    if kind is None or wanted_form(header(request.headers, "accept")) != Form.TABLE:
        return body
    items = [Stored(obj, 0) for obj in body.get("items", [body])]
    include = dict(request.query).get("includeObject", "Metadata")
    return table(kind, items, now, include, body["metadata"])
