"""HTTP/1.1 on the connections of a transport.

- ``answers``: the head and the body of an answer, cut from the bytes of a connection.
- ``closing``: the end of requests in progress when their transport closes.
- ``compression``: the content of compressed bodies.
- ``connection``: one connection, which carries one request at a time.
- ``pool``: all connections to one server, and the times at which they give up.
- ``dialing``: opens connections: names, sockets, TLS.
- ``streams``: an answer that is read piece by piece.
- ``direct``: requests on these connections.
- ``proxied``: requests through a proxy, sent by aiohttp; ``attempts``, ``sessions``,
  ``resolver``, ``proxy_user`` and ``proxy_failures`` belong to it.
- ``failures``: the errors that callers see.
"""
