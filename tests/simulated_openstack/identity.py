"""Keystone v3: tokens, the catalogue, projects."""

from __future__ import annotations

import secrets
from typing import Final

from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, Service, route
from tests.simulated_openstack.model import Token, later, now, stable_uuid
from tests.simulated_openstack.world import Project, User, World

REGION: Final = "RegionOne"
ELSEWHERE: Final = "RegionTwo"
"""A region in the catalogue whose services do not answer anything useful."""
_TOKEN_HEADER: Final = "x-subject-token"
_CATALOGUE: Final = (  # type, name, path of the endpoint
    ("identity", "keystone", "/identity/v3"),
    ("compute", "nova", "/compute/v2.1"),
    ("placement", "placement", "/placement"),
    ("image", "glance", "/image"),
    ("network", "neutron", "/network"),
    ("block-storage", "cinder", "/block-storage/v3"),
)


class Tokens:
    """Tokens that were issued and are valid."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, Token] = {}

    def find(self, id: str) -> Token | None:
        """A token that is good."""
        found = self._known.get(id)
        return found if found is not None and found.expires > now() else None

    def give(self, user: User, project: Project) -> Token:
        issued = now()
        token = Token(
            f"gAAAAAB{secrets.token_urlsafe(32)}",
            user.id,
            project.id,
            project.name,
            user.roles[project.id],
            issued,
            later(issued, self._world.pace.token),
        )
        self._known[token.id] = token
        return token

    def revoke(self, id: str) -> None:
        self._known.pop(id, None)

    def revoke_all(self) -> None:
        """Revoke all tokens, as if all had expired."""
        self._known.clear()


def service(tokens: Tokens) -> Service:
    """The service that gives out tokens."""

    def authenticate(request: Request) -> Answer:
        auth = request.json("auth")
        if (bound := _application_credential(request.world, auth)) is not None:
            user, project = bound
        else:
            user = _user(request, auth)
            project = _project(request.world, user, auth)
        token = tokens.give(user, project)
        return Answer(201, _shown(request, token), {"X-Subject-Token": token.id})

    def subject(request: Request) -> Token:
        found = tokens.find(request.headers.get(_TOKEN_HEADER, ""))
        if found is None:
            raise RefusalError(404, "Could not find token.")
        return found

    def validate(request: Request) -> Answer:
        found = subject(request)
        return Answer(200, _shown(request, found), {"X-Subject-Token": found.id})

    def revoke(request: Request) -> Answer:
        tokens.revoke(subject(request).id)
        return Answer(204)

    return Service(
        "identity",
        "/v3",
        (
            route("GET", "", _version, public=True),
            route("GET", "/", _version, public=True),
            route("POST", "/auth/tokens", authenticate, public=True),
            route("GET", "/auth/tokens", validate),
            route("HEAD", "/auth/tokens", validate),
            route("DELETE", "/auth/tokens", revoke),
            route("GET", "/auth/catalog", _catalog),
            route("GET", "/projects", _projects),
            route("GET", "/projects/{id}", _one_project),
            route("GET", "/regions", _regions),
        ),
        _error,
    )


def _error(code: int, message: str, kind: str = "") -> Json:
    titles = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}
    title = kind or titles.get(code, "Internal Server Error")
    return {"error": {"code": code, "message": message, "title": title}}


def _version(request: Request) -> Answer:
    links = [{"rel": "self", "href": f"{request.root}/"}]
    shown = {"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": links}
    return Answer(200, {"version": shown})


def _user(request: Request, auth: Json) -> User:
    """Return the user of a name and password.

    Raises:
        RefusalError: 401: the user is unknown.
    """
    try:
        wanted = auth["identity"]["password"]["user"]
        password = wanted["password"]
    except (KeyError, TypeError):
        raise RefusalError(400, "'password' is a required property") from None
    domain = _domain(request.world, wanted.get("domain", {}))
    for user in request.world.users.values():
        known = wanted.get("id") == user.id or (wanted.get("name"), domain) == (
            *(user.name, user.domain),
        )
        if known and user.password == password:
            return user
    raise RefusalError(401, "The request you have made requires authentication.")


def _application_credential(world: World, auth: Json) -> tuple[User, Project] | None:
    """The user and the project of an application credential; None: it is another method.

    Raises:
        RefusalError: 401: it is unknown, or a scope is requested besides, as Keystone has it.
    """
    wanted = auth.get("identity", {}).get("application_credential")
    if wanted is None:
        return None
    if "scope" in auth:
        raise RefusalError(401, "Application credentials cannot request a scope.")
    known = world.application_credentials.get((wanted.get("id"), wanted.get("secret")))
    if known is None:
        raise RefusalError(401, "The request you have made requires authentication.")
    return known


def _project(world: World, user: User, auth: Json) -> Project:
    """The requested project.

    Raises:
        RefusalError: 401: there is none, or the user has no role in it.
    """
    wanted = auth.get("scope", {}).get("project", {})
    domain = _domain(world, wanted.get("domain", {}))
    for project in world.projects.values():
        known = wanted.get("id") == project.id or (wanted.get("name"), domain) == (
            *(project.name, project.domain),
        )
        if known and project.id in user.roles:
            return project
    raise RefusalError(401, "The request you have made requires authentication.")


def _domain(world: World, wanted: Json) -> str:
    if "id" in wanted:
        return str(wanted["id"])
    return next((id for id, name in world.domains.items() if name == wanted.get("name")), "")


def _shown(request: Request, token: Token) -> Json:
    world = request.world
    user, project = world.users[token.user], world.projects[token.project]
    return {
        "token": {
            "methods": ["password"],
            "user": {
                "id": user.id,
                "name": user.name,
                "domain": _domain_shown(world, user.domain),
                "password_expires_at": None,
            },
            "audit_ids": [token.id[-22:]],
            "expires_at": _time(token.expires),
            "issued_at": _time(token.issued),
            "project": {
                "id": project.id,
                "name": project.name,
                "domain": _domain_shown(world, project.domain),
            },
            "is_domain": False,
            "roles": [{"id": stable_uuid("role", name), "name": name} for name in token.roles],
            "catalog": _services(request),
        }
    }


def _domain_shown(world: World, id: str) -> Json:
    return {"id": id, "name": world.domains[id]}


def _time(moment: object) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def _services(request: Request) -> Json:
    base = request.root.removesuffix("/identity/v3")
    regions = {REGION: base, ELSEWHERE: f"{base}/elsewhere"}
    return [
        {
            "id": stable_uuid("catalogue", kind),
            "type": kind,
            "name": name,
            "endpoints": [
                {
                    "id": stable_uuid("endpoint", kind, interface, region),
                    "interface": interface,
                    "region": region,
                    "region_id": region,
                    "url": f"{where if kind != 'identity' else base}{path}",
                }
                for region, where in regions.items()
                for interface in ("public", "internal", "admin")
            ],
        }
        for kind, name, path in _CATALOGUE
    ]


def _catalog(request: Request) -> Answer:
    return Answer(200, {"catalog": _services(request), "links": {}})


def _project_shown(project: Project) -> Json:
    return {
        "id": project.id,
        "name": project.name,
        "domain_id": project.domain,
        "enabled": True,
        "is_domain": False,
        "description": "",
        "parent_id": project.domain,
    }


def _projects(request: Request) -> Answer:
    request.must_be_admin("identity:list_projects")
    name = request.query.get("name")
    found = [p for p in request.world.projects.values() if name in {None, p.name}]
    return Answer(200, {"projects": [_project_shown(p) for p in found], "links": {"next": None}})


def _one_project(request: Request) -> Answer:
    found = request.world.projects.get(request.parts["id"])
    if found is None:
        raise RefusalError(404, f"Could not find project: {request.parts['id']}.")
    return Answer(200, {"project": _project_shown(found)})


def _regions(_request: Request) -> Answer:
    return Answer(200, {"regions": [{"id": name} for name in (REGION, ELSEWHERE)], "links": {}})
