"""The scale subresource of custom kinds: a view of three of their fields as autoscaling/v1 Scale.

Source: apiextensions-apiserver pkg/registry/customresource/etcd.go (ScaleREST) and
pkg/apis/apiextensions/validation (ValidateCustomResourceDefinitionSubresources).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.errors import JSON, Cause, FieldErrors, JSONObject
from hypercobalt.apiserver.values import at, object_at, text_at

API_VERSION, KIND = "autoscaling/v1", "Scale"
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MAX = 2**31  # replicas are an int32
_PLACES = {
    "specReplicasPath": (".spec",),
    "statusReplicasPath": (".status",),
    "labelSelectorPath": (".spec", ".status"),
}


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a kind keeps what its scale shows."""

    replicas: tuple[str, ...]
    observed: tuple[str, ...]
    selector: tuple[str, ...]

    @classmethod
    def of(cls, version: JSONObject) -> Scale | None:
        """What a version of a definition says; None when it has no such subresource."""
        raw = at(version, "subresources", "scale")
        if not isinstance(raw, dict):
            return None
        return cls(*(tuple(text_at(raw, name).split(".")[1:]) for name in _PLACES))

    def view(self, obj: JSONObject) -> JSONObject:
        """The scale of an object.

        Raises:
            StatusError: 500 when it has no number of replicas.
        """
        replicas = at(obj, *self.replicas)
        if not isinstance(replicas, int):
            place = ".".join(("", *self.replicas))
            raise errors.internal(f'the spec replicas field "{place}" does not exist')
        observed: JSONObject = {"replicas": at(obj, *self.observed) or 0}
        if self.selector and (selector := text_at(obj, *self.selector)):
            observed["selector"] = selector
        meta = object_at(obj, "metadata")
        return {
            "kind": KIND,
            "apiVersion": API_VERSION,
            "metadata": {name: meta[name] for name in _SHOWN if name in meta},
            "spec": {"replicas": replicas} if replicas else {},
            "status": observed,
        }

    def applied(self, obj: JSONObject, scale: JSON) -> JSONObject:
        """The object with the replicas that a client's scale asks for.

        Raises:
            StatusError: 400 when it is no Scale; 422 for an impossible number.
        """
        version, kind = text_at(scale, "apiVersion"), text_at(scale, "kind")
        if (version, kind) != (API_VERSION, KIND):
            text = f"expected {API_VERSION} {KIND}, got {version or 'no apiVersion'} {kind}"
            raise errors.bad_request(text)
        replicas = object_at(scale, "spec").get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas >= _MAX:
            raise errors.bad_request("Scale.spec.replicas must be an int32")
        if replicas < 0:
            where = ".".join(("", *self.replicas))
            cause = FieldErrors.invalid(where, replicas, "should be a non-negative integer")
            group = text_at(obj, "apiVersion").partition("/")[0]
            name = text_at(obj, "metadata", "name")
            raise errors.invalid(group, text_at(obj, "kind"), name, [cause])
        new = copy.deepcopy(obj)
        for name in ("resourceVersion", "uid"):
            if sent := text_at(scale, "metadata", name):
                object_at(new, "metadata")[name] = sent
        place = new
        for name in self.replicas[:-1]:
            place = object_at(place, name)
        place[self.replicas[-1]] = replicas
        return new


def check_scale(raw: JSONObject, place: str) -> Iterator[Cause]:
    """What is wrong with the paths of a definition's scale."""
    for name, starts in _PLACES.items():
        path, where = text_at(raw, name), f"{place}.{name}"
        if not path:
            if name != "labelSelectorPath":
                yield FieldErrors.required(where)
        elif not path.startswith("."):
            yield FieldErrors.invalid(where, path, "must be a simple json path starting with .")
        elif not path.startswith(tuple(f"{start}." for start in starts)):
            under = "under either .spec or .status" if len(starts) > 1 else f"under {starts[0]}"
            yield FieldErrors.invalid(where, path, f"should be a json path {under}")
