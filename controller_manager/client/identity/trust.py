"""The verify flags of TLS, which are the same on every version of Python.

Python 3.13 turned on VERIFY_X509_STRICT and VERIFY_X509_PARTIAL_CHAIN in
`ssl.create_default_context`; before, both were off. Here the flags follow Go's
crypto/x509, which upstream uses. This module imports only the standard library, so
that a test can run it with every Python on a machine.
"""

import ssl


def set_verify_flags(context: ssl.SSLContext) -> None:
    """Make a context trust the chains that Go's crypto/x509 trusts.

    - A chain may end in any trusted certificate, not only in a self-signed
      one: ``ca.crt`` may contain only an intermediate authority.
    - A certificate without subject or authority key identifier is accepted:
      the certificates of many private authorities have none.
    - Trusted certificates are preferred to those that the peer sends.
    """
    context.verify_flags |= (
        ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        | ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST
    )
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
