"""The user of launchers must be nobody else on the host.

Every launcher has the same user, and an account of the host with that number could read the disks
of all guests.
"""

from __future__ import annotations

import pwd
from collections.abc import Callable

from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.errors import ConfigurationError


def name_of(uid: int) -> str:
    """Name of the host's account with this user ID; "" if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def check_account(name: Callable[[int], str] = name_of) -> None:
    """Make sure that the host has no account with the user ID of launchers.

    Raises:
        ConfigurationError: it has one.
    """
    if taken := name(LAUNCHER_USER):
        raise ConfigurationError(
            f"account {taken!r} of this host has user ID {LAUNCHER_USER}, which launcher pods run "
            "with; give the account another ID (usermod --uid), or remove it"
        )
