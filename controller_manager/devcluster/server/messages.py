"""Tables of the protobuf messages that objects of all kinds contain.

A message is a table from field number to "name:type". A type is str, int, bool,
bytes (shown as base64) or a message, with "[]" before it for lists and "{}" for
maps from strings; a message with "+" before it and no name has its fields in the
place of the message that contains it. The messages of a kind stand with its strategy.
"""

from collections.abc import Mapping
from typing import Final

Message = Mapping[int, str]

META_MESSAGES: Final[Mapping[str, Message]] = {
    "Time": {1: "seconds:int", 2: "nanos:int"},
    "MicroTime": {1: "seconds:int", 2: "nanos:int"},
    "Quantity": {1: "string:str"},
    "IntOrString": {1: "type:int", 2: "intVal:int", 3: "strVal:str"},
    "ObjectMeta": {
        1: "name:str",
        2: "generateName:str",
        3: "namespace:str",
        4: "selfLink:str",
        5: "uid:str",
        6: "resourceVersion:str",
        7: "generation:int",
        8: "creationTimestamp:Time",
        9: "deletionTimestamp:Time",
        10: "deletionGracePeriodSeconds:int",
        11: "labels:{}str",
        12: "annotations:{}str",
        13: "ownerReferences:[]OwnerReference",
        14: "finalizers:[]str",
        17: "managedFields:[]ManagedFieldsEntry",
    },
    "ManagedFieldsEntry": {
        1: "manager:str",
        2: "operation:str",
        3: "apiVersion:str",
        4: "time:Time",
        6: "fieldsType:str",
        7: "fieldsV1:FieldsV1",
        8: "subresource:str",
    },
    "FieldsV1": {1: "raw:bytes"},
    "OwnerReference": {
        1: "kind:str",
        3: "name:str",
        4: "uid:str",
        5: "apiVersion:str",
        6: "controller:bool",
        7: "blockOwnerDeletion:bool",
    },
    "LabelSelector": {
        1: "matchLabels:{}str",
        2: "matchExpressions:[]LabelSelectorRequirement",
    },
    "LabelSelectorRequirement": {1: "key:str", 2: "operator:str", 3: "values:[]str"},
    "DeleteOptions": {
        1: "gracePeriodSeconds:int",
        2: "preconditions:Preconditions",
        3: "orphanDependents:bool",
        4: "propagationPolicy:str",
        5: "dryRun:[]str",
        6: "ignoreStoreReadErrorWithClusterBreakingPotential:bool",
    },
    "Condition": {
        1: "type:str",
        2: "status:str",
        3: "observedGeneration:int",
        4: "lastTransitionTime:Time",
        5: "reason:str",
        6: "message:str",
    },
    "ExtraValue": {1: "items:[]str"},
    "Preconditions": {1: "uid:str", 2: "resourceVersion:str"},
}
