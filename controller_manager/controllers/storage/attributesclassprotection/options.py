"""The feature gate of classes of volume attributes."""

from typing import Final

from controller_manager.options.gates import Gate

VOLUME_ATTRIBUTES_CLASS: Final = Gate("VolumeAttributesClass", locked=True)
"""Volumes have classes of attributes, and users may change the class."""
