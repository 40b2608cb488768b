"""The stages of a request, in order:

    authenticate → authorize → (the body arrives) → describe (discovery, health) →
    take the path apart → find the resource → read, or decode the body and write

Every refusal is a Status. Nothing a client sends ends the process.
"""  # noqa: D415  # the summary is the list

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.access import reviews
from hypercobalt.apiserver.access.attributes import attributes_of
from hypercobalt.apiserver.access.authentication import Authenticator, bearer_token
from hypercobalt.apiserver.access.escalation import guarded
from hypercobalt.apiserver.access.impersonation import acting_as
from hypercobalt.apiserver.access.node_restriction import node_of, restricted
from hypercobalt.apiserver.access.rbac import CLUSTER_ROLES, Rbac
from hypercobalt.apiserver.aggregation import Aggregation
from hypercobalt.apiserver.definitions import Definitions
from hypercobalt.apiserver.discovery import Discovery
from hypercobalt.apiserver.errors import JSONObject, StatusError
from hypercobalt.apiserver.health import StoreHealth
from hypercobalt.apiserver.hooks import Hook, Hooks
from hypercobalt.apiserver.kinds.builtin import strategies
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry
from hypercobalt.apiserver.offload import Offload
from hypercobalt.apiserver.policies.following import Policies
from hypercobalt.apiserver.reading import Reader
from hypercobalt.apiserver.rendering import Renderer, error_response
from hypercobalt.apiserver.requests.bodies import (
    BODY_TYPES,
    JSON_TYPE,
    MAX_VALUES,
    MAX_VALUES_OF_A_HOST,
    PATCH_TYPES,
    STRATEGIC_PATCH,
    Body,
    decode,
)
from hypercobalt.apiserver.requests.request import (
    ANONYMOUS,
    SUBRESOURCE_VERBS,
    Call,
    Request,
    Response,
    Stream,
    delete_options,
    parse_path,
)
from hypercobalt.apiserver.storage.objects import DamagedError, Key, OutOfSpaceError, StoreError
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import object_at, text_at
from hypercobalt.apiserver.watching import Hub
from hypercobalt.apiserver.writing import Writer, Written
from hypercobalt.logs import get_logger

log = get_logger(__name__)

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
NO_SUCH_PAGE = Response(404, b"404 page not found\n", "text/plain; charset=utf-8")


class Api:
    """Answers requests, however they are transported."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        hub: Hub,
        authenticator: Authenticator,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self._store, self._registry, self._offload = store, registry, Offload()
        self._reader = Reader(store, hub)
        policies = Policies(store, registry, self._offload)
        self.writer = Writer(store, self._offload, policies, Hooks(hooks))
        self._discovery, self._health = Discovery(registry), StoreHealth(store)
        self.rbac, self._accounts = Rbac(store), authenticator.accounts
        self._reviews = reviews.Reviews(authenticator, self.rbac)
        self.definitions = Definitions(store, registry, self.writer)
        self.aggregation = Aggregation(store, registry, self.writer)

    def authorize(self, request: Request, headers: Sequence[tuple[str, str]]) -> None:
        """Let a request in, as whom its headers name.

        Raises:
            StatusError: 401; 403; 400 for headers that contradict each other.
        """
        if request.user == ANONYMOUS and bearer_token(request.headers):
            raise errors.unauthorized()
        request.user = acting_as(request, headers, self.rbac)
        self.rbac.check(request.user, attributes_of(request))

    async def handle(self, request: Request) -> Response | Stream:
        """The answer to a request that is authorized, or is the server's own."""
        try:
            return await self._route(request)
        except StatusError as error:
            return error_response(error)
        except OutOfSpaceError as error:
            return error_response(errors.out_of_space(str(error)))
        except DamagedError as error:
            return error_response(errors.unreadable(str(error)))
        except StoreError as error:
            log.warning("write_failed", path=request.path, reason=str(error))
            return error_response(errors.internal(str(error)))

    async def _route(self, request: Request) -> Response | Stream:
        if request.path.startswith("//"):
            return NO_SUCH_PAGE
        if request.method == "GET":
            described = self._health.answer(request) or self._discovery.answer(request)
            if described is not None:
                return described
            if issuer := self._accounts.describe(request.path):
                return issuer
        target = parse_path(request.path)
        if target is None:
            return NO_SUCH_PAGE
        resource = self._registry.find(target.group, target.version, target.resource)
        if resource is None:
            if self._registry.is_builtin(target.group):
                raise errors.no_such_path()
            return NO_SUCH_PAGE
        if resource.deprecation:
            request.warnings.append(resource.deprecation)
        call = Call(request, resource, target.namespace, target.name, target.subresource)
        return await self._dispatch(call)

    async def _dispatch(self, call: Call) -> Response | Stream:
        if call.subresource:
            _check_subresource(call)
        spans_all = call.resource.namespaced and call.verb in ("list", "watch")
        if call.resource.namespaced != bool(call.namespace) and not spans_all:
            if call.resource.custom:
                return NO_SUCH_PAGE
            raise errors.no_such_path() if call.namespace else errors.method_not_allowed()
        _check_verb(call)
        match call.verb:
            case "get":
                return self._reader.get(call)
            case "list":
                return self._reader.list_objects(call)
            case "watch":
                return self._reader.watch(call)
            case _:
                answer = await self._write(call)
        if call.resource.qualified == CRD_RESOURCE:
            with contextlib.suppress(StoreError):  # this write is done; the collector tries again
                await self.definitions.settle()
        if call.resource.qualified == CLUSTER_ROLES:
            with contextlib.suppress(StoreError):  # the next write of a ClusterRole tries again
                await self.aggregation.settle()
        return answer

    async def _write(self, call: Call) -> Response:
        renderer, code = Renderer(call), 200
        if call.verb in ("create", "update", "patch"):
            call.request.check_options()
        call = guarded(replace(call, body=await self._read_body(call)), self.rbac)
        if (node := node_of(call.request.user)) is not None:
            call = self._restricted(call, node)
        match call.verb:
            case "create" if call.resource.group in reviews.GROUPS:
                return renderer.response(self._reviews.answer(call), 201)
            case "create" if call.subresource == "token":
                call.guard(object_at(call.body.value), None)
                return renderer.response(self._accounts.issue(call), 201)
            case "create" if call.subresource == "binding":
                await self.writer.bind(call)
                return renderer.response({**_success(), "code": 201}, 201)
            case "create":
                written = await self.writer.create(call)
            case "update":
                written = await self.writer.update(call)
            case "patch":
                written = await self.writer.patch(call)
            case "delete":
                options = delete_options(call)
                written = await self.writer.delete(call, options)
                if options.orphanDependents is False and not written.deleted:
                    code = 202  # legacy orphanDependents=false returns 202
            case _:
                done = await self.writer.delete_all(call, delete_options(call))
                meta: JSONObject = {"resourceVersion": str(self._store.revision)}
                return renderer.list_response(done, meta)
        if written.deleted and not _shows_deleted(call):
            return renderer.response(_deleted(call, written))
        code = 201 if written.created else code
        return Response(code, renderer.object(written.data), renderer.media)

    def _restricted(self, call: Call, node: str) -> Call:
        """The same call, refused where it is not the kubelet's to make."""
        own_node = self._object(Key("nodes", "", node))
        pod = None
        if call.subresource == "token":
            name = text_at(call.body.value, "spec", "boundObjectRef", "name")
            pod = self._object(Key("pods", call.namespace, name))
        return restricted(call, node, text_at(own_node, "metadata", "uid"), pod)

    def _object(self, key: Key) -> JSONObject | None:
        stored = self._store.get(key)
        return msgspec.json.decode(stored.data) if stored is not None else None

    async def _read_body(self, call: Call) -> Body:
        request, custom = call.request, call.resource.custom
        await request.receive()
        if request.method == "DELETE" and not request.body:
            return Body()
        allowed: Sequence[str] = BODY_TYPES
        if request.method == "PATCH":
            allowed = [k for k in PATCH_TYPES if not (custom and k == STRATEGIC_PATCH)]
        kind = request.content_type or ("" if request.method == "PATCH" else JSON_TYPE)
        if kind not in allowed:
            raise errors.unsupported_media_type(allowed)
        most = MAX_VALUES_OF_A_HOST if request.user.is_of_a_host else MAX_VALUES
        return await self._offload.run(len(request.body), decode, kind, request.body, most)


def _check_subresource(call: Call) -> None:
    resource = call.resource
    if call.subresource in resource.subresources:
        return
    if call.subresource in resource.refused:
        raise errors.unsupported(f"the subresource {resource.names.plural}/{call.subresource}")
    raise errors.not_found(call.subject) if resource.custom else errors.no_such_path()


def _check_verb(call: Call) -> None:
    verbs = SUBRESOURCE_VERBS[call.subresource] if call.subresource else call.resource.verbs
    if call.verb in verbs:
        return
    if call.resource.custom:
        verb = VERBS.get(call.request.method, "")
        raise errors.verb_not_supported(call.resource.subject(), verb)
    raise errors.method_not_allowed()


def _shows_deleted(call: Call) -> bool:
    return not call.resource.custom and call.kind in strategies.RETURNS_DELETED


def _deleted(call: Call, written: Written) -> JSONObject:
    """The answer of most kinds to a finished delete."""
    uid = text_at(msgspec.json.decode(written.data), "metadata", "uid")
    return {**_success(), "details": call.subject.details(uid=uid)}


def _success() -> JSONObject:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
