"""The protobuf messages of certificate requests, which kubectl approves and denies."""

from collections.abc import Mapping
from typing import Final

from controller_manager.devcluster.server.messages import Message

SIGNING_MESSAGES: Final[Mapping[str, Message]] = {
    "CertificateSigningRequest": {
        1: "metadata:ObjectMeta",
        2: "spec:CertificateSigningRequestSpec",
        3: "status:CertificateSigningRequestStatus",
    },
    "CertificateSigningRequestSpec": {
        1: "request:bytes",
        2: "username:str",
        3: "uid:str",
        4: "groups:[]str",
        5: "usages:[]str",
        7: "signerName:str",
        8: "expirationSeconds:int",
    },
    "CertificateSigningRequestStatus": {
        1: "conditions:[]CertificateSigningRequestCondition",
        2: "certificate:bytes",
    },
    "CertificateSigningRequestCondition": {
        1: "type:str",
        2: "reason:str",
        3: "message:str",
        4: "lastUpdateTime:Time",
        5: "lastTransitionTime:Time",
        6: "status:str",
    },
}
"""Without the field ``extra``: no user of the development cluster has any."""
