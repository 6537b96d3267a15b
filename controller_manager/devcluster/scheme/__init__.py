"""The types of the Kubernetes API 1.36, and the forms of objects (apimachinery).

Nothing here knows requests or storage.
"""
