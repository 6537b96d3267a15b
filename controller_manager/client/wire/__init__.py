"""HTTP/1.1 on the connections of a transport.

- ``answers``: the head and the body of an answer, cut from the bytes of a connection.
- ``closing``: the end of requests in progress when their transport closes.
- ``compression``: the content of compressed bodies.
- ``connection``: one connection, which carries one request at a time.
- ``pool``: all connections to one server, and the times at which they give up.
- ``dialing``: opens connections: names, sockets, TLS.
- ``tunnel``: the way through a proxy.
- ``streams``: an answer that is read piece by piece.
- ``requests``: requests on these connections, and the errors that callers see.
"""
