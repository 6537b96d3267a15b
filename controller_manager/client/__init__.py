"""Talking to an API server.

Nothing here caches objects or decides which objects to write.

- ``api_answer``: an answer with the methods of aiohttp's, for ``api_client``
- ``api_client``: the ApiClient of kubernetes_asyncio, over a client
- ``builder``: makes the clients of the manager and of its controllers
- ``client``: the client: reader and writer, as one identity
- ``coordinated_election``: leader election in which the API server chooses the leader
- ``correlator``: merges similar events and drops too frequent ones
- ``counts``: counts of plugin calls and reloads, for metrics
- ``credentials``: the address of the API server, and the identity to present
- ``discovery``: the resources that an API server serves
- ``discovery_documents``: the documents of discovery, each group by itself
- ``errors``: exceptions by reason
- ``events``: the event recorder
- ``exec_plugin``: programs that print credentials
- ``fencing``: the fence: sends a write only if this process owns its key
- ``files``: a reserve of file descriptors
- ``http``: the HTTP transport
- ``kubeconfig``: reads kubeconfig files
- ``leader_election``: leader election with a lease
- ``lease_candidate``: the LeaseCandidate of this process
- ``long_lists``: decodes long lists in slices
- ``ownership``: the keys that this process may write for
- ``paths``: the URL paths of requests
- ``proxies``: the proxy of a cluster
- ``ratelimit``: the client-side rate limit
- ``reader``: the verbs that read: get, list and watch
- ``request_metrics``: the hooks for the requests of a client
- ``request_options``: the options of delete, list, watch and patch
- ``resource_mapper``: finds the resource of a kind
- ``rest``: requests within the limits of a client, with safe retries
- ``serializer``: the bytes of requests and answers, and their media types
- ``server_clock``: the clock of the API server
- ``service_accounts``: requests as a service account
- ``slots``: the slots for requests in flight
- ``sync_key``: the key of the sync in progress
- ``tls``: TLS settings, renewed when files change
- ``tokens``: token sources
- ``transport``: the transport protocol
- ``trust``: the verify flags of TLS
- ``warning_headers``: logs the warnings of an API server
- ``watch``: the events of a watch stream
- ``wire``: HTTP/1.1 on the connections of a transport
- ``writer``: the verbs that write: create, update, patch, apply and delete
"""
