"""The protobuf messages of events (api/core/v1 and api/events/v1 generated.proto)."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

EVENT_MESSAGES: Final[Mapping[str, Message]] = {
    "Event": {
        1: "metadata:ObjectMeta",
        2: "involvedObject:ObjectReference",
        3: "reason:str",
        4: "message:str",
        5: "source:EventSource",
        6: "firstTimestamp:Time",
        7: "lastTimestamp:Time",
        8: "count:int",
        9: "type:str",
        10: "eventTime:MicroTime",
        11: "series:EventSeries",
        12: "action:str",
        13: "related:ObjectReference",
        14: "reportingComponent:str",
        15: "reportingInstance:str",
    },
    "EventSource": {1: "component:str", 2: "host:str"},
    "EventSeries": {1: "count:int", 2: "lastObservedTime:MicroTime"},
}

NEW_EVENT_MESSAGES: Final[Mapping[str, Message]] = {
    "events.k8s.io/v1 Event": {
        1: "metadata:ObjectMeta",
        2: "eventTime:MicroTime",
        3: "series:EventSeries",
        4: "reportingController:str",
        5: "reportingInstance:str",
        6: "action:str",
        7: "reason:str",
        8: "regarding:ObjectReference",
        9: "related:ObjectReference",
        10: "note:str",
        11: "type:str",
        12: "deprecatedSource:EventSource",
        13: "deprecatedFirstTimestamp:Time",
        14: "deprecatedLastTimestamp:Time",
        15: "deprecatedCount:int",
    }
}
