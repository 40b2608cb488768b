"""The command that a pod's unit runs: namespaces, a root directory of its own, no rights.

The unit's first process makes the pod's PID namespace and waits for it. The script below runs as
the first process in there. It shows the pod read-only what programs need of the host, and of its
own only volumes, device nodes and /tmp; then it becomes our launcher, as a user without rights.

Source: unshare(1), setpriv(1), pivot_root(2); measured in docs/decisions/0079.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.api.kubevirt.names import LAUNCHER_USER

_NAMESPACES: Final = (
    "/usr/bin/unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child=KILL", "--",
)  # fmt: skip
# The kernel forgets the signal of --kill-child with a change of user: it is requested again.
_USER: Final = (
    "/usr/bin/setpriv", "--pdeathsig", "KILL", f"--reuid={LAUNCHER_USER}",
    f"--regid={LAUNCHER_USER}", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
    "--no-new-privs", "--",
)  # fmt: skip
_SCRIPT: Final = """
set -eu
root=$1 name=$2 devices=$3 count=$4
shift 4
mount -t tmpfs -o mode=755,size=16m,nosuid tmpfs "$root"
cd "$root"
mkdir -p usr etc/alternatives proc sys dev tmp run var
for link in bin sbin lib lib32 lib64 libx32; do
  [ ! -L /$link ] || ln -s usr/$link $link
done
ln -s ../run var/run
mount -o bind,ro,nosuid,nodev /usr usr
mount -o bind,ro,nosuid,nodev /etc/alternatives etc/alternatives
for file in ld.so.cache nsswitch.conf localtime; do
  [ ! -e /etc/$file ] || cp -L /etc/$file etc/$file
done
printf 'root:x:0:0::/:/usr/sbin/nologin\\nqemu:x:%s:%s::/run:/usr/sbin/nologin\\n' USER USER \
  >etc/passwd
printf 'root:x:0:\\nqemu:x:%s:\\n' USER >etc/group
printf '127.0.0.1 localhost %s\\n' "$name" >etc/hosts
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
echo "$name" >proc/sys/kernel/hostname
echo 67 >proc/sys/net/ipv4/ip_unprivileged_port_start
ip link set lo up
mount -t tmpfs -o mode=1777,size=64m,nosuid,nodev tmpfs tmp
mount -t tmpfs -o mode=755,size=64k,nosuid,noexec tmpfs dev
mkdir dev/pts dev/shm dev/net
mount -t devpts -o newinstance,ptmxmode=0666,nosuid,noexec devpts dev/pts
mount -t tmpfs -o mode=1777,size=64m,nosuid,nodev,noexec tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for one in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 $devices; do
  number=${one#*:}
  mknod -m 666 "dev/${one%%:*}" c "${number%:*}" "${number#*:}"
done
while [ "$count" -gt 0 ]; do
  mkdir -p ".$3"
  mount -o "bind,$1,nosuid,nodev" "$2" ".$3"
  shift 3
  count=$((count - 1))
done
mkdir .host
mount -o remount,ro,nosuid .
pivot_root . .host
cd /
umount -l /.host
exec "$@"
""".replace("USER", str(LAUNCHER_USER))  # fmt: skip
_NODES: Final = {"kvm": "kvm:10:232", "tun": "net/tun:10:200", "vhost-net": "vhost-net:10:238"}


@dataclass(frozen=True, slots=True)
class Bind:
    """A directory or file of the host that a pod sees.

    Args:
        source: on the host.
        target: in the pod, an absolute path.
        writable: whether the pod may write it.
    """

    source: Path
    target: str
    writable: bool = False


def pod_command(
    command: Iterable[str],
    *,
    root: Path,
    hostname: str,
    devices: Iterable[str],
    binds: tuple[Bind, ...],
) -> tuple[str, ...]:
    """The command of a pod's unit.

    Args:
        command: program in the pod, and its arguments.
        root: an empty directory of the host.
        hostname: of the pod.
        devices: names of device nodes, as `hypercobalt.lab.pods.running.launch` has them.
        binds: in the order of mounting.
    """
    words = [
        word
        for one in binds
        for word in ("rw" if one.writable else "ro", str(one.source), one.target)
    ]
    nodes = " ".join(_NODES[name] for name in devices)
    script = ("/bin/sh", "-c", _SCRIPT, "pod", str(root), hostname, nodes, str(len(binds)))
    return (*_NAMESPACES, *script, *words, *_USER, *command)
