"""Builds calls. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from hypercobalt.api.meta import Object
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime.client.transport import Call
from hypercobalt.runtime.client.watch import join_key

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Selection(Generic[T]):
    """A part of a collection, chosen on the server.

    Args:
        namespace: None for all namespaces, and for a cluster-scoped kind.
        labels: label selector, `app=a,tier!=b`.
        fields: field selector, `metadata.name=a`.
    """

    type: type[T]
    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The query parameters of the selectors."""
        selectors = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in selectors.items() if value}

    @property
    def about(self) -> str:
        """The selection as messages name it: `Hypervisor metadata.name=a`."""
        where = f"in {self.namespace}" if self.namespace else ""
        return " ".join(
            part for part in (self.type.resource.kind, where, self.labels, self.fields) if part
        )


def resource_name(type_: type[Object]) -> str:
    """`plural.group`, as kubectl writes it; the core group has no suffix."""
    info = type_.resource
    return f"{info.plural}.{info.group}" if info.group else info.plural


def make_call(
    verb: str,
    method: str,
    type_: type[Object],
    key: tuple[str | None, str | None],
    *,
    about: str | None = None,
    params: dict[str, str] | None = None,
    body: object = None,
    content_type: str = "application/json",
    subresource: str | None = None,
    idempotent: bool = True,
) -> Call:
    """The call for one verb on an object, or on a collection when `key` has no name.

    Raises:
        ConfigurationError: a namespace for a kind that has none, or a name that is no path part.
    """
    namespace, name = key
    info = type_.resource
    if namespace is not None and not info.namespaced:
        raise ConfigurationError(f"{info.kind} has no namespace; got {namespace!r}")
    path = info.path(_segment(info.kind, namespace), _segment(info.kind, name))
    target = about or join_key(namespace or "", name or "")
    return Call(
        verb=verb,
        method=method,
        path=f"{path}/{subresource}" if subresource else path,
        resource=resource_name(type_),
        about=f"{verb} {info.kind} {target}".strip(),
        params=params or {},
        body=None if body is None else msgspec.json.encode(body),
        content_type=content_type,
        idempotent=idempotent,
    )


def _segment(kind: str, name: str | None) -> str | None:
    """A name as a part of a URL's path. Names come from users: none may lead elsewhere.

    Source: k8s.io/apimachinery, pkg/api/validation/path.
    """
    if name is None:
        return None
    if not name or "/" in name or "%" in name or name in {".", ".."}:
        raise ConfigurationError(f"{kind}: {name!r} is not the name of an object or namespace")
    return quote(name, safe=":", errors="replace")
