"""The HTTPS server of the daemon: /healthz, /metrics and other endpoints.

The server reads the state of the manager through functions that it is given, and
changes nothing. If it runs in a thread of its own, the main loop calls the functions.

- ``access``: authenticates and authorizes each request
- ``answers``: objects as JSON, and Status objects
- ``authentication``: finds out the user of a request
- ``authorities``: the authorities of client certificates
- ``authorization``: decides whether a user may make a request
- ``cache``: a cache whose entries expire
- ``certificates``: the serving certificates
- ``connection``: one connection, with its timeouts
- ``debug_endpoints``: the endpoints below /debug
- ``debug_flags``: the page that sets the verbosity
- ``endpoints``: /metrics, /configz, /flagz and /statusz
- ``health``: the answers of health checks
- ``health_endpoints``: /healthz, /livez, /readyz and their single checks
- ``limits``: the limits of the server
- ``listener``: accepts connections
- ``main_loop``: questions to the main event loop
- ``negotiation``: chooses text or an object
- ``pages``: the data that the server shows
- ``reviews``: the rate limit and the retries of reviews
- ``server``: the server and its connections
- ``stacks``: the stacks of tasks and threads
- ``streaming``: answers that are sent piece by piece
- ``tls``: settings of TLS, and the chain of a client
- ``users``: the user of a request
- ``zpages``: the pages /flagz and /statusz
"""
