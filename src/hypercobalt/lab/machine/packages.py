"""Install Debian packages without letting them start or enable anything on the machine.

Their services run in the hosts, not here. Installation scripts run `policy-rc.d` before they start
a service: apt runs in a mount namespace where that refuses, so the machine's own answer is never
touched. Units that the packages enabled for the next boot are switched off again.

Source: invoke-rc.d(8), deb-systemd-helper(1p).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Iterable
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab.commands import run

_MINUTES = timedelta(minutes=20)  # half a gigabyte over a slow line
_POLICY = Path("/usr/sbin/policy-rc.d")
_UNITS = Path("/etc/systemd/system")
_SCRIPT = """
set -e
mount --bind "$1" "$2"
shift 2
apt-get -qq update
exec apt-get -qq --yes --no-install-recommends -o Dpkg::Options::=--force-confold install "$@"
"""


async def install(names: Iterable[str]) -> None:
    """Install packages and what they depend on.

    Raises:
        CommandError: apt refuses; the message has its output.
    """
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
    with _nothing_enabled(), _refusal() as policy:
        await run(
            *("unshare", "--mount", "/bin/sh", "-c", _SCRIPT, "install"),
            *(policy, str(_POLICY), *names),
            env=environment,
            within=_MINUTES,
        )


@contextlib.contextmanager
def _refusal() -> Generator[str]:
    """A policy that refuses, and something to mount it over.

    Yields:
        Its path.
    """
    placeholder = not _POLICY.exists()
    if placeholder:
        _POLICY.touch(mode=0o644)  # not executable: programs do not run it
    try:
        with tempfile.TemporaryDirectory() as folder:
            policy = Path(folder) / "policy-rc.d"
            policy.write_text("#!/bin/sh\nexit 101\n")
            policy.chmod(0o755)
            yield str(policy)
    finally:
        if placeholder:
            _POLICY.unlink(missing_ok=True)


@contextlib.contextmanager
def _nothing_enabled() -> Generator[None]:
    before = _enabled()
    try:
        yield
    finally:
        for link in _enabled() - before:
            link.unlink()


def _enabled() -> set[Path]:
    """Every link by which something starts a unit of a package."""
    found = (*_UNITS.glob("*.wants/*"), *_UNITS.glob("*.requires/*"))
    return {link for link in found if link.is_symlink()}
