"""Put a directory of the machine into the mounts of a running host, in place of what is there.

usage: python -m hypercobalt.lab.rebind LEADER SOURCE TARGET

A mount of one namespace cannot be bound in another: a copy of it is taken here, and put there.
Neither Python nor the mount(8) of Debian 12 has calls for that.

Source: open_tree(2), move_mount(2), setns(2), umount2(2).
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_OPEN_TREE, _MOVE_MOUNT = 428, 429  # the same number on every architecture
_AT_FDCWD = -100
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 4
_CLONE_NEWNS = 0x20000
_MNT_DETACH = 2


def main(leader: int, source: str, target: str) -> None:
    """Do it.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: int | bytes) -> int:
        done = int(getattr(libc, name)(*arguments))
        if done < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{name}: {os.strerror(number)}")
        return done

    tree = call("syscall", _OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE)
    with Path(f"/proc/{leader}/ns/mnt").open("rb") as mounts:
        call("setns", mounts.fileno(), _CLONE_NEWNS)
    there = os.fsencode(target)
    call("umount2", there, _MNT_DETACH)
    call("syscall", _MOVE_MOUNT, tree, b"", _AT_FDCWD, there, _MOVE_MOUNT_F_EMPTY_PATH)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
