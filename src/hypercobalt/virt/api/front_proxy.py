"""The API server in front of virt-api: its certificate, and the person that it names. Pure.

An API server authenticates a person, and passes the request on with its own client certificate, of
a CA that counts for nothing else, and with headers that name the person. Without that certificate
the headers are a claim of whoever sends them, and count for nothing.

Source: k8s.io/apiserver, pkg/authentication/request/headerrequest (requestheader.go,
requestheader_controller.go); ConfigMap kube-system/extension-apiserver-authentication.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import msgspec

from hypercobalt.runtime.resource_guard import common_names
from hypercobalt.runtime.routes import Request, Requester

NAMESPACE: Final = "kube-system"
CONFIG: Final = "extension-apiserver-authentication"
"""ConfigMap in which an API server publishes how it shows itself."""

_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.S)
_PEOPLE: Final = "client-ca-file"
_CA: Final = "requestheader-client-ca-file"
_NAMES: Final = "requestheader-allowed-names"
_USER: Final = "requestheader-username-headers"
_UID: Final = "requestheader-uid-headers"
_GROUP: Final = "requestheader-group-headers"
_EXTRA: Final = "requestheader-extra-headers-prefix"


class NotTheFrontProxyError(ValueError):
    """A request does not come from the API server, or names no person."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """What the API server publishes of itself; header names are in lower case.

    Args:
        authorities: CAs of its client certificate, in PEM form; "": it is never believed.
        names: common names that its certificate may have; empty: any.
        user: headers with the name of a person, the first of them that is there counts.
        uid: headers with the person's uid.
        group: headers with a group each.
        extra: what headers with other properties begin with.
    """

    authorities: str = ""
    names: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def published(data: Mapping[str, str]) -> FrontProxy:
    """Read the ConfigMap of an API server.

    Raises:
        ValueError: a list in it cannot be read, or every person's certificate would do for the API
            server's; nothing of it may be used then.
    """
    authorities, names = data.get(_CA, ""), _list(data, _NAMES)
    if not names and _certificates(authorities) & _certificates(data.get(_PEOPLE, "")):
        raise ValueError(f"{_CA} has {_PEOPLE}, and {_NAMES} is empty: anybody could name anybody")
    return FrontProxy(
        authorities=authorities,
        names=names,
        user=_lowered(data, _USER),
        uid=_lowered(data, _UID),
        group=_lowered(data, _GROUP),
        extra=_lowered(data, _EXTRA),
    )


def _certificates(pem: str) -> frozenset[str]:
    """The certificates of a file, each without white space; the whole text if it has none."""
    found = _CERTIFICATE.findall(pem) or [pem]
    return frozenset("".join(one.split()) for one in found) - {""}


def _list(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{key} is no list of texts: {error}") from error


def _lowered(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(one.lower() for one in _list(data, key))


def person(proxy: FrontProxy, request: Request) -> Requester:
    """The person on whose behalf the API server sends a request.

    Args:
        proxy: as published.
        request: its certificate is verified by `proxy.authorities`, and by no other CA.

    Raises:
        NotTheFrontProxyError: the request is not the API server's, or names nobody.
    """
    if not proxy.authorities.strip() or not request.certificate:
        raise NotTheFrontProxyError(
            "requests come through the API server, which shows a client certificate of "
            f"{_CA} in ConfigMap {NAMESPACE}/{CONFIG}; this one has none"
        )
    names = common_names(request.certificate)
    if proxy.names and not set(names) & set(proxy.names):
        raise NotTheFrontProxyError(
            f"client certificate of {', '.join(names) or 'nobody'}: {_NAMES} in ConfigMap "
            f"{NAMESPACE}/{CONFIG} does not name it"
        )
    user = _first(request, proxy.user)
    if not user:
        raise NotTheFrontProxyError(f"the API server names no person in {', '.join(proxy.user)}")
    groups = tuple(value for name in proxy.group for value in _values(request, name) if value)
    return Requester(user, groups, _first(request, proxy.uid), _extra(request, proxy.extra))


def _first(request: Request, names: Sequence[str]) -> str:
    found = (value for name in names for value in _values(request, name)[:1])
    return next((value for value in found if value), "")


def _values(request: Request, wanted: str) -> tuple[str, ...]:
    return tuple(_text(value) for name, value in request.lines if name == wanted)


def _text(value: str) -> str:
    """The text of a header, whose bytes an API server sends as UTF-8."""
    try:
        return value.encode("latin-1").decode().strip()
    except UnicodeDecodeError as error:
        text = "a header that names the person is no text"
        raise NotTheFrontProxyError(f"{text}: {error}") from error


def _extra(request: Request, prefixes: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in _prefixed(request, prefixes):
        found[name] = (*found.get(name, ()), value)
    return found


def _prefixed(request: Request, prefixes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for prefix in prefixes:
        for name, value in request.lines:
            if name.startswith(prefix):
                yield unquote(name.removeprefix(prefix)), _text(value)
