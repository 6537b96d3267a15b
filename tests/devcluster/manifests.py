"""Manifests of a custom resource, and of objects around it."""

from typing import Final

NAMESPACE: Final = """
apiVersion: v1
kind: Namespace
metadata: {name: team}
"""
DEFINITION: Final = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
WIDGET: Final = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, namespace: team}
"""
CONFIG_MAP: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: team}
"""
POD: Final = """
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: team}
spec:
  containers:
  - {name: c, image: nginx}
"""
