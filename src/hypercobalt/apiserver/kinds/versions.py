"""Stored objects in the version of a kind that a client requests."""

from __future__ import annotations

import msgspec

from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.kinds.builtin import events
from hypercobalt.apiserver.kinds.resources import Resource


def to_version(resource: Resource, data: bytes) -> JSONObject:
    """A stored object as `resource`'s version shows it."""
    return in_version(resource, resource.conformed(data))


def in_version(resource: Resource, conformed: bytes) -> JSONObject:
    """An object that conforms to its schema, as `resource`'s version shows it."""
    obj: JSONObject = msgspec.json.decode(conformed)
    if resource.group == "events.k8s.io":
        return events.from_core(obj)
    if resource.version == resource.storage_version:
        return obj
    return {**obj, "apiVersion": resource.api_version}
