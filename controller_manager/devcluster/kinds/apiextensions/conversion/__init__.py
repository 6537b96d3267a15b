"""Conversion of custom resources between versions by a webhook.

``review`` makes a ConversionReview and reads its answer, ``metadata`` checks converted
objects and restores their metadata, ``webhook`` calls the webhook of a definition, and
``converter`` converts the objects of one version from and to the stored version.
Upstream: apiextensions-apiserver/pkg/apiserver/conversion.
"""
