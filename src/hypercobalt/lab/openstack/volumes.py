"""Cinder, whose volumes are files of the directory that the hosts share.

Its driver is NFS's, without a server of NFS. Nova mounts the share in a host with the first volume
of it there, and unmounts it with the last: the hosts' mount(8) has a helper for NFS that binds the
directory instead. Cinder itself finds its share mounted, in the mount namespace of its process.

Source: mount(8), "External helpers"; `os_brick.remotefs.remotefs`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from typing import Final

from hypercobalt.lab import processes
from hypercobalt.lab.host import Host
from hypercobalt.lab.openstack import config, infra
from hypercobalt.lab.openstack.place import CINDER, OpenStackPlace

ROLE: Final = "openstack/cinder"
_SERVE: Final = Path(__file__).with_name("serve_cinder.py")
_HELPER: Final = "/usr/sbin/mount.nfs"
_BIND: Final = f"""\
#!/bin/sh
exec mount --bind {config.SHARED_VOLUMES} "$2"
"""
# Cinder refuses to start without the program, and never calls it: its share is mounted.
_NEVER_CALLED: Final = "#!/bin/sh\nexit 1\n"
_MOUNTED: Final = 'mount --bind "$0" "$1" && shift && exec "$@"'


def let_mount(host: Host) -> None:
    """Let Nova mount the share of the volumes in a host.

    Raises:
        LabError: the file cannot be written.
    """
    host.disk.write(_HELPER, _BIND, mode=0o755)


async def start(place: OpenStackPlace, shared_files: Path) -> None:
    """Start Cinder where it does not run, and wait until it takes volumes.

    Args:
        place: of the environment, whose other services run.
        shared_files: where the files are that the hosts share.

    Raises:
        LabError: it ends; the message has the end of its log.
    """
    if processes.find(place.lab_id, ROLE):
        return
    state = place.state("cinder")
    volumes = shared_files / PurePosixPath(config.SHARED_VOLUMES).name
    mounted = mount_point(place)
    programs = state / "bin"
    for folder in (volumes, mounted, programs, state / "lock"):
        folder.mkdir(parents=True, exist_ok=True)
    never_called = programs / PurePosixPath(_HELPER).name
    never_called.write_text(_NEVER_CALLED)
    never_called.chmod(0o755)
    serve = (place.python, _SERVE, place.etc / "cinder.conf", place.address, CINDER.port)
    environment = place.environment
    log = place.log / "cinder-api.log"
    await processes.spawn(
        ("unshare", "--mount", "sh", "-c", _MOUNTED, *map(str, (volumes, mounted, *serve))),
        lab_id=place.lab_id,
        role=ROLE,
        log=log,
        env=environment | {"PATH": f"{programs}:{environment['PATH']}"},
    )
    await infra.answers(place.lab_id, ROLE, place.address, CINDER.port, log)


def mount_point(place: OpenStackPlace) -> Path:
    """Where Cinder finds its share, in the namespace of its process alone."""
    return place.state("cinder") / "mnt" / share_directory()


def share_directory() -> str:
    """The name that Cinder and Nova give to the mount point of the share."""
    return hashlib.md5(":".join(config.SHARE).encode(), usedforsecurity=False).hexdigest()
