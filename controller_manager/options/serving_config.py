"""Makes the config of the HTTPS server, and of the access to it."""

import ssl

from . import config, tls
from .flag_set import suggest
from .options import Options


def serving_config(options: Options) -> config.ServingConfig:
    """Return the config of the HTTPS server."""
    port = options["secure-port"]
    if not 0 <= port <= 65535:  # noqa: PLR2004 - the range of ports
        options.problem("secure-port", f"must be from 0 to 65535, it is {port}")
    certificate, key = options["tls-cert-file"], options["tls-private-key-file"]
    ciphers = _ciphers(options)
    if bool(certificate) != bool(key):
        absent = "tls-private-key-file" if certificate else "tls-cert-file"
        present = "tls-cert-file" if certificate else "tls-private-key-file"
        options.problem(present, f"must be given together with --{absent}")
    return config.ServingConfig(
        port=port,
        bind_address=options["bind-address"],
        certificate=config.CertificateFiles(certificate, key) if certificate else None,
        cert_dir=options["cert-dir"],
        sni=tuple(_named_certificates(options)),
        min_tls_version=_min_version(options, ciphers),
        ciphers=ciphers,
        curve=_curve(options),
        permit_address_sharing=options["permit-address-sharing"],
        permit_port_sharing=options["permit-port-sharing"],
    )


def _named_certificates(options: Options) -> list[config.CertificateFiles]:
    found = []
    for text in options["tls-sni-cert-key"]:
        files, colon, names = (part.strip() for part in text.partition(":"))
        certificate, comma, key = (part.strip() for part in files.partition(","))
        is_malformed = not comma or "," in key or (colon and not names)
        if is_malformed or not certificate or not key:
            options.problem(
                "tls-sni-cert-key",
                f"{text!r} must be written as certfile,keyfile or "
                "certfile,keyfile:name,name",
            )
            continue
        listed = (name.strip() for name in names.split(","))
        found.append(
            config.CertificateFiles(
                certificate, key, tuple(name for name in listed if name)
            )
        )
    return found


def _min_version(options: Options, ciphers: tuple[str, ...]) -> ssl.TLSVersion:
    """Return the lowest version of TLS to offer, with these suites of TLS 1.2."""
    version = options["tls-min-version"]
    if version in ("VersionTLS10", "VersionTLS11"):
        options.warn(
            "tls-min-version",
            f"{version} is not offered any more, VersionTLS12 is the lowest",
        )
    elif version and version not in tls.VERSIONS:
        options.problem(
            "tls-min-version",
            f"{version!r} is not a version; use VersionTLS12 or VersionTLS13",
        )
    if options["tls-cipher-suites"] and not ciphers:
        # Only suites of TLS 1.3 are given: no lower version can be offered.
        return ssl.TLSVersion.TLSv1_3
    return tls.VERSIONS.get(version, tls.LOWEST_VERSION)


def _ciphers(options: Options) -> tuple[str, ...]:
    """Return OpenSSL's names of the chosen suites; as in Go, their order is fixed."""
    names = []
    for name in options.words("tls-cipher-suites"):
        if name in tls.CIPHER_SUITES:
            names.append(tls.CIPHER_SUITES[name])
        elif name in tls.INSECURE_SUITES:
            options.warn("tls-cipher-suites", f"{name} is insecure and is not offered")
        elif name not in tls.TLS_13_SUITES:
            hint = suggest(name, tls.CIPHER_SUITES, "")
            options.problem("tls-cipher-suites", f"no cipher suite {name}{hint}")
            return ()
    chosen = options.words("tls-cipher-suites")
    if chosen and not names and not set(chosen) & tls.TLS_13_SUITES:
        options.problem("tls-cipher-suites", "none of them is secure enough to offer")
    return tuple(name for name in tls.DEFAULT_CIPHERS if name in names)


def _curve(options: Options) -> str:
    """Return OpenSSL's name of the curve to offer, empty for its own choice.

    Go passes over numbers that it does not know, so they are no problem here, either.
    """
    flag = "tls-curve-preferences"
    numbers = options[flag]
    known = [number for number in numbers if number in tls.CURVES]
    for number in numbers:
        if number not in tls.CURVES:
            options.warn(flag, f"curve {number} cannot be chosen here")
    if len(known) == 1:
        return tls.CURVES[known[0]]
    if numbers:
        how_many = "several curves" if known else "no known curves"
        options.warn(flag, f"{how_many} are given, OpenSSL chooses")
    return ""


def authentication_config(options: Options) -> config.AuthenticationConfig:
    """Return the config by which users are authenticated."""
    for name in (
        "allowed-names",
        "extra-headers-prefix",
        "group-headers",
        "uid-headers",
        "username-headers",
    ):
        if any(not each.strip() for each in options[f"requestheader-{name}"]):
            options.problem(f"requestheader-{name}", "has an empty entry")
    return config.AuthenticationConfig(
        kubeconfig=options["authentication-kubeconfig"],
        skip_lookup=options["authentication-skip-lookup"],
        tolerate_lookup_failure=options["authentication-tolerate-lookup-failure"],
        cache_ttl=options.seconds("authentication-token-webhook-cache-ttl"),
        client_ca_file=options["client-ca-file"],
        request_header=config.RequestHeaderConfig(
            client_ca_file=options["requestheader-client-ca-file"],
            allowed_names=options.words("requestheader-allowed-names"),
            username_headers=options.words("requestheader-username-headers"),
            uid_headers=options.words("requestheader-uid-headers"),
            group_headers=options.words("requestheader-group-headers"),
            extra_prefixes=options.words("requestheader-extra-headers-prefix"),
        ),
    )


def authorization_config(options: Options) -> config.AuthorizationConfig:
    """Return the config by which requests are authorized."""
    paths = options.words("authorization-always-allow-paths")
    for path in paths:
        if "*" in path[:-1]:
            options.problem(
                "authorization-always-allow-paths",
                f"{path!r}: a * is allowed at the end only",
            )
    return config.AuthorizationConfig(
        kubeconfig=options["authorization-kubeconfig"],
        always_allow_paths=paths,
        authorized_ttl=options.seconds("authorization-webhook-cache-authorized-ttl"),
        unauthorized_ttl=options.seconds(
            "authorization-webhook-cache-unauthorized-ttl"
        ),
    )
