"""Tokens of service accounts: given out on request, good as long as what they are bound to exists.

A token names its account and, where it is bound, the Pod, Secret or Node, each with its uid, and no
rights. Each use looks the objects up in the store: with any of them the token is dead.

Source: kubernetes pkg/serviceaccount/claims.go and
pkg/registry/core/serviceaccount/storage/token.go.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access import jwt
from hypercobalt.apiserver.access.impersonation import account_groups
from hypercobalt.apiserver.access.jwt import TokenError
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.requests.request import (
    AUTHENTICATED,
    NODE_NAME,
    Call,
    Response,
    User,
)
from hypercobalt.apiserver.storage.objects import Key
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import stamp_of

ISSUER = "https://kubernetes.default.svc"
AUDIENCES = (ISSUER,)  # of a token that names no other: this server
MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 600, 3600, 2**32
LEEWAY = timedelta(minutes=1)  # for clocks that differ, and of objects that are being deleted
REMEMBERED = 1_000  # signatures that were verified
_EXTRA = "authentication.kubernetes.io"
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class _Ref(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    uid: str = ""


class _Private(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: _Ref
    pod: _Ref | None = None
    secret: _Ref | None = None
    node: _Ref | None = None

    def bound_to(self) -> Iterator[tuple[Key, str]]:
        """The objects that must exist, with their uids; a Pod's Node is no bond."""
        yield (
            Key("serviceaccounts", self.namespace, self.serviceaccount.name),
            self.serviceaccount.uid,
        )
        if self.secret is not None:
            yield Key("secrets", self.namespace, self.secret.name), self.secret.uid
        if self.pod is not None:
            yield Key("pods", self.namespace, self.pod.name), self.pod.uid
        elif self.node is not None:
            yield Key("nodes", "", self.node.name), self.node.uid


class _Claims(msgspec.Struct, frozen=True, rename={"private": "kubernetes.io"}):
    iss: str
    sub: str
    aud: tuple[str, ...]
    exp: int  # seconds since 1970
    nbf: int
    iat: int
    jti: str
    private: _Private


class _Meta(msgspec.Struct):
    uid: str = ""
    deletionTimestamp: datetime | None = None  # noqa: N815  # wire name


class _PodSpec(msgspec.Struct):
    serviceAccountName: str = ""  # noqa: N815  # wire name
    nodeName: str = ""  # noqa: N815  # wire name


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class BoundRef(msgspec.Struct, omit_defaults=True):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815  # wire name
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct):
    audiences: list[str] | None = None
    expirationSeconds: int | None = DEFAULT_SECONDS  # noqa: N815  # wire name
    boundObjectRef: BoundRef | None = None  # noqa: N815  # wire name


class _RequestMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _TokenRequest(msgspec.Struct):
    kind: str = "TokenRequest"
    apiVersion: str = "authentication.k8s.io/v1"  # noqa: N815  # wire name
    metadata: _RequestMeta = msgspec.field(default_factory=_RequestMeta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


_objects = msgspec.json.Decoder(_Object)


class Accounts:
    """Issues tokens and authenticates by them."""

    def __init__(self, store: Store, key: jwt.TokenKey) -> None:
        self._store, self._key = store, key
        self._verified: OrderedDict[bytes, _Claims] = OrderedDict()

    def describe(self, path: str) -> Response | None:
        """The issuer's documents, for verifiers of tokens; None for other paths."""
        if path == "/openid/v1/jwks":
            keys: JSONObject = {"keys": [self._key.document()]}
            return Response(200, msgspec.json.encode(keys), "application/jwk-set+json")
        if path != "/.well-known/openid-configuration":
            return None
        found: JSONObject = {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        return Response(200, msgspec.json.encode(found))

    # -- issuing -------------------------------------------------------------------------------

    def issue(self, call: Call) -> JSONObject:
        """The answer to a TokenRequest.

        Raises:
            StatusError: 400; 404; 409 for another uid; 422.
        """
        request = _read(call)
        account = self._find(Key("serviceaccounts", call.namespace, call.name))
        uid = request.metadata.uid
        if uid and uid != account.metadata.uid:
            why = f"the UID in the token request ({uid}) does not match the UID of the service"
            raise _conflict("TokenRequest", call.name, f"{why} account ({account.metadata.uid})")
        spec = request.spec
        if spec.expirationSeconds is None:
            spec.expirationSeconds = DEFAULT_SECONDS
        _check_seconds(spec.expirationSeconds)
        spec.audiences = spec.audiences or list(AUDIENCES)
        named = _Ref(call.name, account.metadata.uid)
        private = self._bind(_Private(call.namespace, named), spec.boundObjectRef)
        claims = _claims(call, private, spec.audiences, spec.expirationSeconds)
        expires = call.now + timedelta(seconds=spec.expirationSeconds)
        shown: JSONObject = msgspec.to_builtins(request)
        shown["metadata"] = {
            "name": call.name,
            "namespace": call.namespace,
            "uid": account.metadata.uid,
            "creationTimestamp": call.stamp,
        }
        shown["status"] = {
            "token": self._key.sign(msgspec.json.encode(claims)),
            "expirationTimestamp": stamp_of(expires),
        }
        return shown

    def _find(self, key: Key) -> _Object:
        held = self._store.get(key)
        if held is None:
            raise errors.not_found(errors.Subject("", key.resource, key.name))
        return _objects.decode(held.data)

    def _bind(self, private: _Private, bound: BoundRef | None) -> _Private:
        if bound is None:
            return private
        resource = _BOUND.get(bound.kind) if bound.apiVersion == "v1" else None
        if resource is None:
            group, _, version = bound.apiVersion.rpartition("/")
            what = f"{group}/{version}, Kind={bound.kind}"
            raise errors.bad_request(f"cannot bind token to object of type {what}")
        namespace = "" if bound.kind == "Node" else private.namespace
        found = self._find(Key(resource, namespace, bound.name))
        node = None
        if bound.kind == "Pod":
            node = self._node_of(found, private.serviceaccount.name)
        if bound.uid not in ("", found.metadata.uid):
            why = f"the UID in the bound object reference ({bound.uid}) does not match the UID"
            text = f"{why} in record. The object might have been deleted and then recreated"
            raise _conflict(bound.kind, bound.name, text)
        ref = _Ref(bound.name, found.metadata.uid)
        parts = {"node": node, bound.kind.lower(): ref}
        return msgspec.structs.replace(private, **parts)

    def _node_of(self, pod: _Object, account: str) -> _Ref | None:
        spec = msgspec.json.decode(pod.spec, type=_PodSpec)
        if spec.serviceAccountName != account:
            text = f'cannot bind token for serviceaccount "{account}" to pod running with different'
            raise errors.bad_request(f"{text} serviceaccount name.")
        if not spec.nodeName:
            return None
        node = self._store.get(Key("nodes", "", spec.nodeName))
        uid = _objects.decode(node.data).metadata.uid if node is not None else ""
        return _Ref(spec.nodeName, uid)

    # -- authenticating ------------------------------------------------------------------------

    def user_of(
        self, token: str, audiences: Sequence[str] = AUDIENCES
    ) -> tuple[User, tuple[str, ...]]:
        """The user of a token, and the ones of `audiences` for which it is good.

        Raises:
            TokenError: for none of them, or not at all.
        """
        claims = self._claims_of(token)
        now = datetime.now(UTC)
        shared = tuple(name for name in claims.aud if name in audiences)
        if claims.iss != ISSUER or not shared:
            raise TokenError(f"the token is not for {', '.join(audiences)}")
        if now - LEEWAY > datetime.fromtimestamp(claims.exp, UTC):
            raise TokenError("the token has expired")
        if now + LEEWAY < datetime.fromtimestamp(claims.nbf, UTC):
            raise TokenError("the token is not valid yet")
        for key, uid in claims.private.bound_to():
            held = self._store.get(key)
            meta = _objects.decode(held.data).metadata if held is not None else _Meta()
            ended = meta.deletionTimestamp
            if held is None or meta.uid != uid or (ended is not None and ended < now - LEEWAY):
                raise TokenError(f"the token was bound to {key.resource} {key.name}, which is gone")
        return _user(claims), shared

    def _claims_of(self, token: str) -> _Claims:
        mark = hashlib.sha256(token.encode()).digest()
        claims = self._verified.get(mark)
        if claims is None:
            if not jwt.is_token(token):
                raise TokenError("the token is not a service account's")
            try:
                claims = msgspec.json.decode(self._key.verify(token), type=_Claims)
            except (msgspec.DecodeError, OSError, TypeError, ValueError) as error:
                raise TokenError(f"the token cannot be verified: {type(error).__name__}") from error
            self._verified[mark] = claims
            if len(self._verified) > REMEMBERED:
                self._verified.popitem(last=False)
        return claims


def _read(call: Call) -> _TokenRequest:
    try:
        request = msgspec.convert(call.body.value, _TokenRequest)
    except msgspec.ValidationError as error:
        text = f'TokenRequest in version "v1" cannot be handled as a TokenRequest: {error}'
        raise errors.bad_request(text) from error
    if request.kind != "TokenRequest" or request.apiVersion != "authentication.k8s.io/v1":
        raise errors.bad_request(f"{request.apiVersion}, Kind={request.kind} is no TokenRequest")
    for field, sent, wanted in (
        ("name", request.metadata.name, call.name),
        ("namespace", request.metadata.namespace, call.namespace),
    ):
        if sent not in ("", wanted):
            text = f"must match the service account {field} if specified"
            cause = errors.FieldErrors.invalid(f"metadata.{field}", sent, text)
            raise errors.invalid("authentication.k8s.io", "TokenRequest", call.name, [cause])
    return request


def _check_seconds(seconds: int) -> None:
    text = "may not specify a duration less than 10 minutes" if seconds < MIN_SECONDS else ""
    if seconds > MAX_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
    if text:
        cause = errors.FieldErrors.invalid("spec.expirationSeconds", seconds, text)
        raise errors.invalid("authentication.k8s.io", "TokenRequest", "", [cause])


def _conflict(kind: str, name: str, why: str) -> errors.StatusError:
    group = "authentication.k8s.io" if kind == "TokenRequest" else ""
    return errors.conflict(errors.Subject(group, kind, name), why)


def _claims(call: Call, private: _Private, audiences: list[str], seconds: int) -> _Claims:
    began = int(call.now.timestamp())
    name = f"system:serviceaccount:{private.namespace}:{private.serviceaccount.name}"
    identifier = str(uuid.uuid4())
    return _Claims(
        ISSUER, name, tuple(audiences), began + seconds, began, began, identifier, private
    )


def _user(claims: _Claims) -> User:
    private = claims.private
    extra = {f"{_EXTRA}/credential-id": (f"JTI={claims.jti}",)}
    if private.node is not None:
        extra[NODE_NAME] = (private.node.name,)
        if private.node.uid:
            extra[f"{_EXTRA}/node-uid"] = (private.node.uid,)
    if private.pod is not None:
        extra[f"{_EXTRA}/pod-name"] = (private.pod.name,)
        extra[f"{_EXTRA}/pod-uid"] = (private.pod.uid,)
    groups = (*account_groups(private.namespace), AUTHENTICATED)
    return User(claims.sub, private.serviceaccount.uid, groups, extra)
