"""The feature gate of requests of pods."""

from typing import Final

from controller_manager.options.gates import Gate

POD_CERTIFICATE_REQUEST: Final = Gate("PodCertificateRequest", default=False)
"""Kubelets request certificates for pods."""
