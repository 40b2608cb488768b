"""The cloud that a test runs against: its address, its users, what is in it.

The tests of this ring hold for the real OpenStack; whatever stands in for it elsewhere must give
the same `Cloud` and pass the same tests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hypercobalt.lab.openstack.seed import Names
from tests.openstack.client import Account

__all__ = ["Cloud", "Names"]


@dataclass(frozen=True, slots=True)
class Cloud:
    """A cloud.

    Args:
        admin: may do everything.
        tester: an account of a project, without further rights.
        names: of what is in it.
        hosts: names of at least two hypervisors.
        crash: cuts the power of a host.
        restore: boots a host that is off; Nova shows its compute service as up a little later.
        add_image: adds a public image of a name, with an operating system whose console has some
            words on each line.
        hinder: makes the live migrations of a server take minutes, those to come.
        share_disks: whether the disks of new servers lie where all hosts see them, as they do
            at first; for when there are no servers.
    """

    admin: Account
    tester: Account
    names: Names
    hosts: tuple[str, ...]
    crash: Callable[[str], Awaitable[None]]
    restore: Callable[[str], Awaitable[None]]
    add_image: Callable[[str, str], Awaitable[None]]
    hinder: Callable[[str], Awaitable[None]]
    share_disks: Callable[[bool], Awaitable[None]]
