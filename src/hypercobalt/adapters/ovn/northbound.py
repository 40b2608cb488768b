"""Which chassis may have a logical port, in OVN's northbound database.

While a guest moves, its port belongs to both hosts, and the new one forwards from the guest's first
frame there, so that hardly a packet is lost. Neutron's OVN driver does the same.

Source: ovn-nb(5), Logical_Switch_Port, `requested-chassis` and `activation-strategy`; RFC 7047,
sections 4.1.3 and 5.2.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final

import msgspec

from hypercobalt.adapters.ovs import jsonrpc
from hypercobalt.adapters.ovs.port import SwitchError
from hypercobalt.adapters.ovs.remote import Remote
from hypercobalt.errors import TransientError

_DEADLINE: Final = 10.0  # seconds, for the connection and for the answer each
_PORTS: Final = "Logical_Switch_Port"
_CHASSIS, _STRATEGY = "requested-chassis", "activation-strategy"


class OvnError(TransientError):
    """The northbound database cannot be reached, or refuses."""


class _Row(msgspec.Struct):
    name: str
    options: tuple[str, list[tuple[str, str]]]


class _Result(msgspec.Struct):
    count: int = 0
    rows: list[_Row] = []
    error: str = ""
    details: str = ""


class Northbound:
    """The database, connected to for each transaction.

    Args:
        remotes: servers of one database; the first that answers is taken.
        tls: for `ssl` remotes.
    """

    def __init__(self, remotes: tuple[Remote, ...], tls: ssl.SSLContext | None = None) -> None:
        self._remotes, self._tls = remotes, tls

    async def bind(self, ports: Iterable[str], hosts: tuple[str, ...]) -> None:
        """Set which chassis may have some ports: the one they are on, then the one they go to.

        Ports that the database does not have are left out.

        Raises:
            OvnError: it cannot be reached, or refuses.
        """
        options = {_CHASSIS: ",".join(hosts)}
        if len(hosts) > 1:
            options[_STRATEGY] = "rarp"
        operations: list[object] = [
            {
                "op": "mutate",
                "table": _PORTS,
                "where": [["name", "==", port]],
                "mutations": [
                    ["options", "delete", ["set", [_CHASSIS, _STRATEGY]]],
                    ["options", "insert", ["map", sorted(options.items())]],
                ],
            }
            for port in ports
        ]
        if operations:
            await self._transact(operations)

    async def between_hosts(self) -> dict[str, tuple[str, ...]]:
        """Ports that wait for a guest's first frame on a new host, and their chassis.

        Raises:
            OvnError: it cannot be reached, or refuses.
        """
        where = [["options", "includes", ["map", [[_STRATEGY, "rarp"]]]]]
        select = {"op": "select", "table": _PORTS, "where": where, "columns": ["name", "options"]}
        found: dict[str, tuple[str, ...]] = {}
        for result in await self._transact([select]):
            for row in result.rows if result else ():
                chassis = dict(row.options[1]).get(_CHASSIS, "").split(",")
                if len(chassis) > 1:
                    found[row.name] = tuple(chassis)
        return found

    async def close(self) -> None:
        """Nothing is held between transactions."""

    async def _transact(self, operations: list[object]) -> list[_Result | None]:
        failures: list[str] = []
        for remote in self._remotes:
            try:
                results = await self._send(remote, ["OVN_Northbound", *operations])
            except SwitchError as exc:
                failures.append(str(exc))
                continue
            except msgspec.MsgspecError as exc:
                failures.append(f"{remote}: the answer cannot be read: {exc}")
                continue
            return _checked(results, remote)
        raise OvnError(f"OVN's northbound database: {'; '.join(failures)}")

    async def _send(self, remote: Remote, params: list[object]) -> list[_Result | None]:
        stream = await jsonrpc.connect(remote, deadline=_DEADLINE, tls=self._tls)
        try:
            answer = await stream.call("transact", params, deadline=_DEADLINE)
            return msgspec.json.decode(answer, type=list[_Result | None])
        finally:
            stream.close()


def _checked(results: list[_Result | None], remote: Remote) -> list[_Result | None]:
    failed = next((one for one in results if one and one.error), None)
    if failed:
        words = f"{failed.error} {failed.details}".strip()
        raise OvnError(f"OVN's northbound database at {remote} refuses: {words}")
    return results
