"""The stages of a request, in order:

    authenticate → describe (discovery, health) → take the path apart → find the resource →
    (authorize: everybody who is somebody may do everything) → read or write → answer

Every refusal is a Status. Nothing a client sends ends the process.
"""  # noqa: D415  # the summary is the list

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from hypercobalt.apiserver import status
from hypercobalt.apiserver.admission import Context, check_body
from hypercobalt.apiserver.discovery import Discovery
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry, Resource
from hypercobalt.apiserver.reading import Reader, Renderer, select
from hypercobalt.apiserver.request import (
    Request,
    Response,
    Stream,
    Target,
    decode_body,
    delete_options,
    error_response,
    parse_path,
)
from hypercobalt.apiserver.status import JSON, JSONObject, StatusError
from hypercobalt.apiserver.store import OutOfSpaceError, Store, StoreError
from hypercobalt.apiserver.writing import Writer
from hypercobalt.logs import get_logger

log = get_logger(__name__)

OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")  # need no credentials
REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
ANONYMOUS = "system:anonymous"
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
NO_SUCH_PAGE = Response(404, b"404 page not found\n", "text/plain; charset=utf-8")


class Api:
    """Answers requests; knows nothing of sockets."""

    def __init__(self, store: Store, registry: Registry, reader: Reader, writer: Writer) -> None:
        self._store, self._registry = store, registry
        self._reader, self._writer = reader, writer
        self._discovery = Discovery(registry)

    async def handle(self, request: Request) -> Response | Stream:
        """The answer to a request, whatever it is."""
        try:
            return await self._route(request)
        except StatusError as error:
            return error_response(error)
        except OutOfSpaceError as error:
            return error_response(status.out_of_space(str(error)))
        except StoreError as error:
            log.warning("write_failed", path=request.path, reason=str(error))
            return error_response(status.internal(str(error)))

    async def _route(self, request: Request) -> Response | Stream:
        open_path = request.path in OPEN_PATHS or request.path.startswith(("/livez/", "/readyz/"))
        if request.user.name == ANONYMOUS and ("authorization" in request.headers or not open_path):
            raise status.unauthorized()
        if open_path:
            return self._health(request)
        if request.method == "GET":
            described = self._discovery.answer(request)
            if described is not None:
                return described
        target = parse_path(request.path)
        if target is None:
            return NO_SUCH_PAGE
        resource = self._registry.find(target.group, target.version, target.resource)
        if resource is None:
            if self._registry.is_builtin(target.group):
                raise status.no_such_path()
            return NO_SUCH_PAGE
        if resource.deprecation:
            request.warnings.append(resource.deprecation)
        if target.group in REVIEWS:
            return self._review(resource, request)
        return await self._dispatch(resource, target, request)

    async def _dispatch(
        self, resource: Resource, target: Target, request: Request
    ) -> Response | Stream:
        if target.subresource:
            self._check_subresource(resource, target)
        if resource.namespaced != bool(target.namespace):
            across = resource.namespaced and request.method == "GET" and not target.name
            if not across and resource.custom:
                return NO_SUCH_PAGE
            if not across:
                raise status.no_such_path() if target.namespace else status.method_not_allowed()
        if request.method == "GET":
            return self._read(resource, target, request)
        answer = await self._write(resource, target, request)
        if resource.qualified == CRD_RESOURCE:
            await self._writer.settle()
        return answer

    def _read(self, resource: Resource, target: Target, request: Request) -> Response | Stream:
        if target.name:
            return self._reader.get(resource, target, request)
        if request.flag("watch"):
            return self._reader.watch(resource, target, request)
        return self._reader.list_objects(resource, target, request)

    async def _write(self, resource: Resource, target: Target, request: Request) -> Response:
        if request.method != "DELETE":  # whose options are in its body, too
            request.check_options()
        match request.method, bool(target.name):
            case "POST", False:
                return await self._writer.create(resource, target, request)
            case "PUT", True:
                return await self._writer.update(resource, target, request)
            case "PATCH", True:
                return await self._writer.patch(resource, target, request)
            case "DELETE", True if not target.subresource:
                return await self._writer.delete(resource, target, request)
            case "DELETE", False if "deletecollection" in resource.verbs:
                return await self._delete_collection(resource, target, request)
            case method, _ if resource.custom:
                verb = VERBS.get(method, "")
                raise status.verb_not_supported(resource.subject(), verb)
            case _:
                raise status.method_not_allowed()

    def _check_subresource(self, resource: Resource, target: Target) -> None:
        if target.subresource in resource.subresources:
            return
        if resource.custom:
            raise status.not_found(resource.subject(target.name))
        if target.subresource not in resource.refused:
            raise status.no_such_path()
        what = f"the subresource {resource.names.plural}/{target.subresource}"
        raise status.unsupported(what)

    async def _delete_collection(
        self, resource: Resource, target: Target, request: Request
    ) -> Response:
        renderer = Renderer(resource, request)
        options = delete_options(request)
        selection = select(resource, target, request)
        keys = [
            key
            for key, stored in self._store.scan(resource.stored, selection.namespace)
            if (selection.name is None or key.name == selection.name)
            and selection.matches(key, stored.data)
        ]
        context = Context(resource, request, datetime.now(UTC))
        done = await self._writer.delete_collection(context, keys, options)
        meta: JSONObject = {"resourceVersion": str(self._store.revision)}
        return renderer.list_response(done, meta)

    # -- what is answered without the store ----------------------------------------------------

    def _health(self, request: Request) -> Response:
        if request.path != "/version":
            return Response(200, b"ok", "text/plain; charset=utf-8")
        version = self._registry.version
        major, minor, _ = version.removeprefix("v").split(".")
        body = {
            "major": major,
            "minor": minor,
            "gitVersion": f"{version}+cobalt",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "cpython",
            "platform": "linux/amd64",
        }
        return Response(200, msgspec.json.encode(body))

    def _review(self, resource: Resource, request: Request) -> Response:
        """Reviews are computed, not stored. Everybody who is somebody may do everything."""
        if request.method != "POST":
            raise status.method_not_allowed()
        context = Context(resource, request, datetime.now(UTC))
        body = check_body(context, decode_body(request))
        _check_review(resource, body.get("spec"))
        answers: dict[str, JSONObject] = {
            "SelfSubjectReview": {"userInfo": request.user.body()},
            "SelfSubjectAccessReview": {"allowed": True},
            "SubjectAccessReview": {"allowed": True},
            "LocalSubjectAccessReview": {"allowed": True},
            "SelfSubjectRulesReview": {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            },
        }
        answer = answers.get(resource.names.kind)
        if answer is None:
            raise status.unsupported(resource.names.plural)
        kind: JSON = resource.names.kind
        shown: JSONObject = {"kind": kind, "apiVersion": resource.api_version, "metadata": {}}
        for name in ("metadata", "spec"):
            if name in body:
                shown[name] = body[name]
        if resource.group == "authentication.k8s.io":
            shown["metadata"] = {"creationTimestamp": context.stamp}
        shown["status"] = answer
        return Response(201, msgspec.json.encode(shown))


def _check_review(resource: Resource, spec: JSON) -> None:
    """Refuse an access review that does not say access to what."""
    kinds = ("resourceAttributes", "nonResourceAttributes")
    asked = [name for name in kinds if isinstance(spec, dict) and spec.get(name)]
    if not resource.names.kind.endswith("AccessReview") or len(asked) == 1:
        return
    text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    cause = status.FieldErrors.invalid("spec.resourceAttributes", None, text)
    raise status.invalid(resource.group, "", "", [cause])
