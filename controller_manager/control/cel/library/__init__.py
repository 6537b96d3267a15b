"""The functions that expressions may call.

``METHODS`` take the value before the dot first; ``GLOBALS`` stand alone or have a
namespace, such as ``sets.contains``.
"""
