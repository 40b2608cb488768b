"""Client, informers, work queue, controllers, manager: what a controller needs, no domain word."""

from hypercobalt.api.address import Address, parse_address
from hypercobalt.kubeconfig import Connection
from hypercobalt.kubeconfig import load as load_connection
from hypercobalt.logs import configure as configure_logs
from hypercobalt.runtime.cache import Cache
from hypercobalt.runtime.client.collection import ListResult
from hypercobalt.runtime.client.deletion import Deletion
from hypercobalt.runtime.client.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ConnectionFailedError,
    DeadlineExceededError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    NotLeadingError,
    UnauthorizedError,
    WatchClosedError,
)
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.client.patch import Operation
from hypercobalt.runtime.client.retry import Backoff
from hypercobalt.runtime.client.transport import Limits
from hypercobalt.runtime.client.watch import Change, WatchEvent, join_key, key_of, split_key
from hypercobalt.runtime.clock import Clock, FakeClock, SystemClock
from hypercobalt.runtime.controller import (
    Controller,
    Reconciler,
    Result,
    Source,
    generation_changed,
    initially,
    mapped,
    owned,
    primary,
)
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.informer import Handler, Informer
from hypercobalt.runtime.leader import Election, LeadershipLostError, Timing, process_identity
from hypercobalt.runtime.manager import Manager
from hypercobalt.runtime.metrics import Metrics
from hypercobalt.runtime.queue import KeyBackoff, WorkQueue

__all__ = [
    "Address",
    "AlreadyExistsError",
    "ApiError",
    "Backoff",
    "Cache",
    "Change",
    "Clock",
    "ConflictError",
    "Connection",
    "ConnectionFailedError",
    "Controller",
    "DeadlineExceededError",
    "Deletion",
    "Election",
    "FakeClock",
    "ForbiddenError",
    "GoneError",
    "Handler",
    "Informer",
    "InvalidError",
    "KeyBackoff",
    "Kube",
    "LeadershipLostError",
    "Limits",
    "ListResult",
    "Manager",
    "Metrics",
    "NotFoundError",
    "NotLeadingError",
    "Operation",
    "Reconciler",
    "Recorder",
    "Result",
    "Source",
    "SystemClock",
    "Timing",
    "UnauthorizedError",
    "WatchClosedError",
    "WatchEvent",
    "WorkQueue",
    "configure_logs",
    "generation_changed",
    "initially",
    "join_key",
    "key_of",
    "load_connection",
    "mapped",
    "owned",
    "parse_address",
    "primary",
    "process_identity",
    "split_key",
]
