"""libvirt's own Python binding, in a process of its own: answers one JSON call a line.

Run by Debian's /usr/bin/python3, whose python3-libvirt it imports; so nothing is compiled for
tests, and no C library is in their process.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable

import libvirt
import libvirt_qemu

# Arguments of the callbacks between the domain and the context, by virDomainEventID.
_EVENTS = (0, 1, 3, 6, 7, 9, 13, 15, 17, 18, 19, 20, 21, 24, 25)


class Oracle:
    """The calls, by name."""

    def __init__(self, uri: str) -> None:
        libvirt.registerErrorHandler(lambda *_: None, None)
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=self._run_events, daemon=True).start()
        self.connection = libvirt.open(uri)
        self.events: list[object] = []
        self.news = threading.Condition()

    def connection_call(self, name: str, *arguments: object) -> object:
        return getattr(self.connection, name)(*arguments)

    def domain_call(self, uuid: str, name: str, *arguments: object) -> object:
        return getattr(self.connection.lookupByUUIDString(uuid), name)(*arguments)

    def agent_command(self, uuid: str, command: str, seconds: int) -> object:
        domain = self.connection.lookupByUUIDString(uuid)
        return libvirt_qemu.qemuAgentCommand(domain, command, seconds, 0)

    def define(self, document: str) -> str:
        return str(self.connection.defineXML(document).UUIDString())

    def domains(self) -> object:
        found = self.connection.listAllDomains()
        return sorted((one.name(), one.UUIDString(), one.ID()) for one in found)

    def stats(self, stats: int, flags: int) -> object:
        found = self.connection.getAllDomainStats(stats, flags)
        return {one.UUIDString(): values for one, values in found}

    def subscribe(self) -> None:
        for number in _EVENTS:
            self.connection.domainEventRegisterAny(None, number, self._on_event, number)

    def received(self, count: int) -> object:
        """The events, once there are so many; all of them after a few seconds."""
        with self.news:
            self.news.wait_for(lambda: len(self.events) >= count, timeout=10)
            return self.events

    def _on_event(self, _: object, domain: libvirt.virDomain, *rest: object) -> None:
        *arguments, number = rest
        with self.news:
            self.events.append([number, domain.UUIDString(), domain.name(), *arguments])
            self.news.notify_all()

    @staticmethod
    def _run_events() -> None:
        while True:
            libvirt.virEventRunDefaultImpl()


def main() -> None:
    oracle = Oracle(sys.argv[1])
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        call: Callable[..., object] = getattr(oracle, name)
        try:
            # The binding takes sequences as tuples only.
            answer = {"answer": call(*(tuple(a) if isinstance(a, list) else a for a in arguments))}
        except libvirt.libvirtError as exc:
            error = (exc.get_error_code(), exc.get_error_domain(), exc.get_error_level(), str(exc))
            answer = {"error": error}
        print(json.dumps(answer), flush=True)  # noqa: T201


main()
