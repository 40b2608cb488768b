"""What can be done to a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.simulated_openstack.compute.servers import LOCK_REASONS, found, must_be_unlocked
from tests.simulated_openstack.http import Answer, Json, RefusalError, Request, Route, route
from tests.simulated_openstack.life import Life
from tests.simulated_openstack.model import Acted, Migration, Server

Action = Callable[[Request, Server, Json], Answer]
InPlace = Callable[[Request, Server, Acted], Answer]

_LOCKS: Final = frozenset({"lock", "unlock"})
_ASYNCHRONOUS: Final = (2, 34)
_STOPPED_BY_EVACUATION: Final = (2, 95)
_STATES: Final[dict[str, frozenset[str]]] = {
    "os-migrateLive": frozenset({"active", "paused"}),
    "migrate": frozenset({"active", "stopped"}),
    "confirmResize": frozenset({"resized"}),
    "revertResize": frozenset({"resized"}),
    "os-start": frozenset({"stopped"}),
    "os-stop": frozenset({"active", "error"}),
    "reboot": frozenset({"active", "stopped", "paused", "suspended", "error"}),
    "pause": frozenset({"active"}),
    "unpause": frozenset({"paused"}),
    "suspend": frozenset({"active"}),
    "resume": frozenset({"suspended"}),
    "evacuate": frozenset({"active", "stopped", "error"}),
}
_RECORDED: Final = {
    "os-migrateLive": "live-migration",
    "migrate": "migrate",
    "confirmResize": "confirmResize",
    "revertResize": "revertResize",
    "os-start": "start",
    "os-stop": "stop",
    "reboot": "reboot",
    "pause": "pause",
    "unpause": "unpause",
    "suspend": "suspend",
    "resume": "resume",
    "evacuate": "evacuate",
    "lock": "lock",
    "unlock": "unlock",
}


def routes(life: Life) -> Sequence[Route]:
    in_place = _in_place(life)
    actions = {
        **_moves(life),
        "os-getConsoleOutput": _console,
        "lock": _lock,
        "unlock": _unlock,
        "os-resetState": _reset,
    }

    def act(request: Request) -> Answer:
        server, body = found(request), request.json()
        if not isinstance(body, dict) or len(body) != 1:
            raise RefusalError(400, "There is no such action")
        ((name, arguments),) = body.items()
        if name not in actions and name not in in_place:
            raise RefusalError(400, f"There is no such action: {name}")
        if name not in _LOCKS:
            must_be_unlocked(request, server)
        _check(request, server, name)
        last = next(reversed(request.world.migrations), 0)
        acted = Acted(_RECORDED.get(name, ""), request.token.user, request.token.project)
        if name in in_place:
            answer = in_place[name](request, server, acted)
        else:
            answer = actions[name](request, server, arguments or {})
        began = [m for m in request.world.migrations.values() if m.id > last and m.server is server]
        if name in _RECORDED:
            acted.migration = next(iter(began), None)
            server.acted.append(acted)
            answer.headers = {**answer.headers, "x-openstack-request-id": acted.id}
        return answer

    return (route("POST", "/servers/{id}/action", act),)


def _check(request: Request, server: Server, action: str) -> None:
    states = _STATES.get(action)
    if states is None:
        return
    attribute, state = "vm_state", server.vm_state
    free = action == "evacuate" and not request.world.evacuation_needs_no_task
    if state in states and server.task_state is not None and not free:
        attribute, state = "task_state", server.task_state
    if state not in states:
        text = f"Cannot '{action}' instance {server.id} while it is in {attribute} {state}"
        raise RefusalError(409, text)


def _in_place(life: Life) -> dict[str, InPlace]:
    """Actions that do not move a server: the task state meanwhile, and the state after."""

    def changing(task: str, vm_state: str | None) -> InPlace:
        def act(request: Request, server: Server, acted: Acted) -> Answer:
            server.set(task_state=task)
            seconds = request.world.pace.stop if task == "powering-off" else None
            if task == "rebooting" and server.reboot_fails:
                life.begin(life.fail_reboot(server, acted))
            else:
                life.begin(life.change(server, vm_state, seconds, acted))
            return Answer(202)

        return act

    return {
        "os-start": changing("powering-on", "active"),
        "os-stop": changing("powering-off", "stopped"),
        "reboot": changing("rebooting", "active"),
        "pause": changing("pausing", "paused"),
        "unpause": changing("unpausing", "active"),
        "suspend": changing("suspending", "suspended"),
        "resume": changing("resuming", "active"),
    }


def _moves(life: Life) -> dict[str, Action]:
    def live_migrate(request: Request, server: Server, arguments: Json) -> Answer:
        request.must_be_admin("os_compute_api:os-migrate-server:migrate_live")
        if not {"host", "block_migration"} <= arguments.keys():
            raise RefusalError(400, "Invalid input: 'host' is a required property")
        target = _target(request, arguments)
        if request.version < _ASYNCHRONOUS:
            request.world.choose(server, only=target)
        block = {"auto": None, True: True, False: False}[arguments["block_migration"]]
        server.set(task_state="migrating")
        migration = request.world.new_migration(server, "live-migration", None, "accepted")
        life.begin(life.live_migrate(migration, target, block))
        return Answer(202)

    def migrate(request: Request, server: Server, arguments: Json) -> Answer:
        request.must_be_admin("os_compute_api:os-migrate-server:migrate")
        target = _target(request, arguments)
        if target == server.host:
            raise RefusalError(400, "Cannot migrate to the host where the server exists.")
        try:
            host = request.world.choose(server, only=target)
        except RefusalError:
            request.world.new_migration(server, "migration", None, "error")
            return Answer(202)
        migration = request.world.new_migration(server, "migration", host.name, "pre-migrating")
        server.set(task_state="resize_prep")
        life.begin(life.cold_migrate(migration, host))
        return Answer(202)

    def confirm(request: Request, server: Server, _arguments: Json) -> Answer:
        life.begin(life.confirm(_finished(request, server)))
        return Answer(204)

    def revert(request: Request, server: Server, _arguments: Json) -> Answer:
        server.set(task_state="resize_reverting")
        life.begin(life.revert(_finished(request, server)))
        return Answer(202)

    def evacuate(request: Request, server: Server, arguments: Json) -> Answer:
        request.must_be_admin("os_compute_api:os-evacuate")
        world = request.world
        target = _target(request, arguments)
        if server.host in world.hosts and world.is_up(world.hosts[server.host]):
            raise RefusalError(400, f"Compute service of {server.host} is still in use.")
        migration = world.new_migration(server, "evacuation", None, "accepted")
        server.set(task_state="rebuilding")
        stopped = request.version >= _STOPPED_BY_EVACUATION
        life.begin(life.evacuate(migration, target, stopped=stopped))
        return Answer(200, {"adminPass": "secret"} if request.version < (2, 14) else None)

    return {
        "os-migrateLive": live_migrate,
        "migrate": migrate,
        "confirmResize": confirm,
        "revertResize": revert,
        "evacuate": evacuate,
    }


def _target(request: Request, arguments: Json) -> str:
    name = arguments.get("host") or ""
    if name and name not in request.world.hosts:
        raise RefusalError(400, f"Compute host {name} could not be found.")
    return str(name)


def _finished(request: Request, server: Server) -> Migration:
    for migration in reversed(request.world.migrations.values()):
        if migration.server is server and migration.status == "finished":
            return migration
    raise RefusalError(400, "Instance has not been resized.")


def _console(request: Request, server: Server, arguments: Json) -> Answer:
    if not server.launched or server.vm_state != "active":
        raise RefusalError(409, f"Instance {server.id} is not ready")
    world = request.world
    host = world.hosts[server.host]
    lines: list[str] = []
    if not host.silent:
        beats = int((time.monotonic() - server.booted) / world.pace.beat)
        first = max(0, beats - 100)
        lines = [f"{server.name} login:"] if not first else []
        lines += [f"{server.name}: alive {n}" for n in range(first + 1, beats + 1)]
    length = arguments.get("length")
    if length is not None:
        lines = lines[-int(length) :]
    return Answer(200, {"output": "\n".join(lines)})


def _lock(request: Request, server: Server, arguments: Json) -> Answer:
    by = _locker(request, server)
    if server.locked_by and by == "owner":
        return Answer(202)  # an existing lock is kept
    server.locked_by = by
    if request.version >= LOCK_REASONS and (reason := arguments.get("locked_reason")):
        server.locked_reason = str(reason)
    return Answer(202)


def _unlock(request: Request, server: Server, _arguments: Json) -> Answer:
    if server.locked_by not in {"", _locker(request, server)}:
        request.must_be_admin("os_compute_api:os-lock-server:unlock:unlock_override")
    server.locked_by, server.locked_reason = "", None
    return Answer(202)


def _locker(request: Request, server: Server) -> str:
    """Return who locks a server as Nova decides it: by the project alone."""
    return "owner" if server.project == request.token.project else "admin"


def _reset(request: Request, server: Server, arguments: Json) -> Answer:
    request.must_be_admin("os_compute_api:os-admin-actions:reset_state")
    if arguments.get("state") not in {"active", "error"}:
        raise RefusalError(400, "Invalid input for field/attribute state.")
    server.reset(arguments["state"])
    return Answer(202)
