"""A transport whose first updates fail."""

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport


class FailingUpdates(RecordingTransport):
    """Answers the first two updates with an internal error."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._left = 2

    async def request(self, request: Request) -> Response:
        if request.method == "PUT" and self._left:
            self._left -= 1
            return Response(
                500, {}, b'{"status": "Failure", "reason": "InternalError"}'
            )
        return await super().request(request)
