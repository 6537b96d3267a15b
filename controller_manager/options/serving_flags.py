"""The flags of the HTTPS server, its authentication and its authorization."""

from typing import Final

from .flag import Flag, section

DEFAULT_SECURE_PORT: Final = 10257


_SERVING: Final = section(
    "Secure serving",
    Flag(
        "bind-address",
        "ip",
        "0.0.0.0",  # noqa: S104 - upstream's default
        "The IP address to listen on for --secure-port. 0.0.0.0 and :: stand for "
        "all interfaces, of IPv4 and IPv6.",
    ),
    Flag(
        "cert-dir",
        "string",
        None,
        "The directory of the certificates. A self-signed certificate is written to "
        "it, as kube-controller-manager.crt and .key, if --tls-cert-file is not given; "
        "without a directory it is kept in memory only.",
    ),
    Flag(
        "disable-http2-serving",
        "bool",
        "false",
        "Serve HTTP/1.1 only, which this build always does.",
    ),
    Flag(
        "http2-max-streams-per-connection",
        "int",
        "0",
        "The limit of streams in an HTTP/2 connection.",
        inert="HTTP/1.1 is served only",
    ),
    Flag(
        "permit-address-sharing",
        "bool",
        "false",
        "Set SO_REUSEADDR, so that the address of a connection that is closing can "
        "be bound to.",
    ),
    Flag(
        "permit-port-sharing",
        "bool",
        "false",
        "Set SO_REUSEPORT, so that several managers can bind to one port.",
    ),
    Flag(
        "secure-port",
        "int",
        str(DEFAULT_SECURE_PORT),
        "The port on which to serve HTTPS with authentication and authorization. "
        "If 0, nothing is served.",
    ),
    Flag(
        "tls-cert-file",
        "string",
        None,
        "The file with the certificate for HTTPS, followed by its intermediate "
        "certificates. Read again when it changes.",
    ),
    Flag(
        "tls-cipher-suites",
        "strings",
        None,
        "The cipher suites to offer for TLS 1.2, by their IANA names. Those of "
        "TLS 1.3 cannot be chosen.",
    ),
    Flag(
        "tls-curve-preferences",
        "int32Slice",
        None,
        "The number of the curve to offer: 23, 24 or 25 (P-256, P-384, P-521). If "
        "several are given, or another one, OpenSSL chooses.",
        value_name="int32Slice",
    ),
    Flag(
        "tls-min-version",
        "string",
        None,
        "The lowest version of TLS: VersionTLS12 (the default) or VersionTLS13.",
    ),
    Flag(
        "tls-private-key-file",
        "string",
        None,
        "The file with the key of --tls-cert-file.",
    ),
    Flag(
        "tls-sni-cert-key",
        "namedCertKey",
        None,
        "A certificate and its key, and optionally the names that it is for, such "
        "as *.example.com. May be given more than once.",
        value_name="certfile,keyfile[:name,...]",
    ),
)


_AUTHENTICATION: Final = section(
    "Authentication",
    Flag(
        "authentication-kubeconfig",
        "string",
        None,
        "A kubeconfig for creating tokenreviews and for reading the client "
        "authorities of the cluster. Without it, and outside a pod, no bearer "
        "token identifies a user.",
    ),
    Flag(
        "authentication-skip-lookup",
        "bool",
        "false",
        "Do not read missing settings of authentication from the cluster.",
    ),
    Flag(
        "authentication-token-webhook-cache-ttl",
        "duration",
        "10s",
        "Time for which the user of a token is cached.",
    ),
    Flag(
        "authentication-tolerate-lookup-failure",
        "bool",
        "false",
        "Continue if settings of authentication cannot be read from the cluster; "
        "then no client certificate identifies a user.",
    ),
    Flag(
        "client-ca-file",
        "string",
        None,
        "A request with a client certificate signed by an authority in this file is "
        "from the user of the certificate's common name.",
    ),
    Flag(
        "requestheader-allowed-names",
        "strings",
        None,
        "Common names of client certificates that may name users in headers; "
        "without any, all that --requestheader-client-ca-file signed.",
    ),
    Flag(
        "requestheader-client-ca-file",
        "string",
        None,
        "The authorities of client certificates that are needed to name users in "
        "headers.",
    ),
    Flag(
        "requestheader-extra-headers-prefix",
        "strings",
        "x-remote-extra-",
        "Prefixes of headers with further attributes of the user.",
    ),
    Flag(
        "requestheader-group-headers",
        "strings",
        "x-remote-group",
        "Headers with the groups of the user.",
    ),
    Flag(
        "requestheader-uid-headers",
        "strings",
        None,
        "Headers with the uid of the user.",
    ),
    Flag(
        "requestheader-username-headers",
        "strings",
        "x-remote-user",
        "Headers with the name of the user.",
    ),
)


_AUTHORIZATION: Final = section(
    "Authorization",
    Flag(
        "authorization-always-allow-paths",
        "strings",
        "/healthz,/readyz,/livez",
        "Paths that every client may read, without a subjectaccessreview; a * at the "
        "end matches any suffix.",
    ),
    Flag(
        "authorization-kubeconfig",
        "string",
        None,
        "A kubeconfig for creating subjectaccessreviews. Without it, and outside a "
        "pod, only the group system:masters and --authorization-always-allow-paths "
        "are allowed.",
    ),
    Flag(
        "authorization-webhook-cache-authorized-ttl",
        "duration",
        "10s",
        "Time for which it is cached that a request is allowed.",
    ),
    Flag(
        "authorization-webhook-cache-unauthorized-ttl",
        "duration",
        "10s",
        "Time for which it is cached that a request is not allowed.",
    ),
)


SERVING_FLAGS: Final = (*_SERVING, *_AUTHENTICATION, *_AUTHORIZATION)
