"""VirtualMachineInstances that run on a host, as the API server and the node agent have them. Pure.

Each of the two sees what the other may miss: a pod that was deleted by force runs on, and a host
that is silent reports nothing. So what either of them names counts, and what cannot be read is
waited for; an absence alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Final

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.wording import count

_NAMED: Final = 10  # in one message
_UID: Final = 36  # characters
_LONGEST: Final = 317  # characters of a namespace and a name, as Kubernetes has them


@dataclass(frozen=True, slots=True)
class HostGuest:
    """A VirtualMachineInstance on a host.

    Args:
        namespace: of it and its pod.
        name: of it.
        pod: name of its launcher pod; "" where the API server has none.
        uid: of that pod; "" where none is known.
        owner: UID of the VirtualMachineInstance; "" where only the host shows it.
    """

    namespace: str
    name: str
    pod: str = ""
    uid: str = ""
    owner: str = ""

    @property
    def called(self) -> str:
        """Namespace and name for people."""
        text = f"{self.namespace}/{self.name}"
        return text[:_LONGEST]


@dataclass(frozen=True, slots=True)
class HostGuests:
    """What is known of the VirtualMachineInstances on a host.

    Args:
        there: those that run there, or may.
        unread: why there may be others; "" once all were read.
        fresh: read past every cache.
    """

    there: tuple[HostGuest, ...] = ()
    unread: str = ""
    fresh: bool = False

    @property
    def any(self) -> bool:
        """Whether the host may run one."""
        return bool(self.there or self.unread)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them for people, sorted."""
        return tuple(sorted({guest.called for guest in self.there}))


NO_GUESTS: Final = HostGuests(fresh=True)


def reported(hypervisor: Hypervisor | None) -> tuple[HostGuest, ...]:
    """Return those that the node agent of a host reports, or has reported last."""
    if hypervisor is None:
        return ()
    return tuple(
        HostGuest(
            instance.namespace,
            instance.name.removeprefix(f"{instance.namespace}_"),  # as libvirt names its domain
            uid=instance.id,
        )
        for instance in hypervisor.status.instances
        if instance.namespace is not None
    )


def with_reported(guests: HostGuests, hypervisor: Hypervisor | None) -> HostGuests:
    """Return the guests with those that only the host itself shows."""
    known = {guest.uid for guest in guests.there}
    more = tuple(guest for guest in reported(hypervisor) if guest.uid not in known)
    return HostGuests((*guests.there, *more), guests.unread, guests.fresh)


def waiting_text(guests: HostGuests, host: str, *, dead: bool = False) -> str:
    """Return what is waited for, and what a person has to do; "" for nothing.

    Args:
        guests: on the host.
        host: its name.
        dead: the host is proven dead.
    """
    texts = list[str]()
    if guests.there:
        names = guests.names
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = count(len(names), "VirtualMachineInstance")
        then = (
            "they ended with the host, and none is started elsewhere by this version: delete them"
            if dead
            else "none moves by this version: stop or delete them"
        )
        texts.append(
            f"waiting for {what} on {host}: {', '.join(names[:_NAMED])}{more}; {then} "
            f"({_command(guests.there)})"
        )
    if guests.unread:
        texts.append(
            f"cannot list the launcher pods on {host}: {guests.unread}; check that the operator "
            "may list pods and virtualmachineinstances in all namespaces"
        )
    return "; ".join(texts)


def _command(guests: Sequence[HostGuest]) -> str:
    first = min(guests, key=lambda guest: guest.called)
    if not first.owner:
        return f"pod {first.uid[:_UID]} runs there, and the API has none: crictl pods"
    namespace, name = (quote(one[:_LONGEST]) for one in (first.namespace, first.name))
    return f"kubectl delete vmi -n {namespace} {name}"
