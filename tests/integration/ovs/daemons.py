"""Real daemons of Open vSwitch in a network namespace and a run directory of their own.

They are children of the tests' process and are killed with it, and so is the namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hypercobalt.adapters.ovs.model import DaemonName, Paths

VSWITCHD, OVSDB_SERVER = DaemonName.VSWITCHD, DaemonName.OVSDB_SERVER
OVN_CONTROLLER = DaemonName.OVN_CONTROLLER
_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
_WAIT = 20.0
_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2)
_DYING_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_QUIET = ("-vconsole:off", "-vsyslog:off", "-vfile:info")


class Namespace:
    """A network namespace with its own `/sys`, alive as long as a process in it."""

    def __init__(self) -> None:
        # The process reports on its standard output that its file systems are mounted.
        script = "mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec sleep inf"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", *_DYING_WITH_US, "sh", "-c", script],
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout
        assert self._holder.stdout.readline() == b"ready\n"

    @property
    def pid(self) -> int:
        """The pid of the process that holds the namespace."""
        return self._holder.pid

    @property
    def root(self) -> Path:
        """The namespace's root directory, with its `/sys`; `/proc/net` is the process's own."""
        return Path(f"/proc/{self.pid}/root")

    def command(self, *argv: str) -> list[str]:
        """A command line that runs inside."""
        return ["nsenter", "--net", "--mount", f"--target={self.pid}", *argv]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread make its sockets inside."""
        library = ctypes.CDLL(None, use_errno=True)
        with Path("/proc/self/ns/net").open() as ours, Path(f"/proc/{self.pid}/ns/net").open() as n:
            assert library.setns(n.fileno(), _NETWORK) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert library.setns(ours.fileno(), _NETWORK) == 0

    def run(self, *argv: str, env: dict[str, str] | None = None) -> str:
        """What a command prints inside."""
        done = subprocess.run(
            self.command(*argv), capture_output=True, text=True, timeout=_WAIT, check=False, env=env
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout

    def close(self) -> None:
        _end(self._holder)
        if self._holder.stdout:
            self._holder.stdout.close()


class Processes:
    """Processes by name, as they run.

    Args:
        folder: for sockets, databases, logs; a short path, because of the sockets.
        namespace: that they run in.
    """

    def __init__(self, folder: Path, namespace: Namespace) -> None:
        self.folder, self.namespace = folder, namespace
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.env = {**os.environ, "OVS_RUNDIR": str(folder), "OVN_RUNDIR": str(folder)}
        self.env["OVN_SYSCONFDIR"] = str(folder)

    def spawn(self, name: str, *argv: str) -> None:
        """Start a process, and wait until it answers on its control socket."""
        log = f"--log-file={self.folder}/{name}.log"
        command = self.namespace.command(*_DYING_WITH_US, *argv, log, *_QUIET)
        self.running[name] = subprocess.Popen(command, env=self.env, stderr=subprocess.DEVNULL)
        self.wait(lambda: self._answers(name))

    def kill(self, name: str) -> None:
        """`kill -9`: its pid file and its control socket stay."""
        if name in self.running:
            _end(self.running.pop(name))

    def end(self, name: str, *arguments: str) -> None:
        """Have it end itself, as its start script does: it takes its files away."""
        self.appctl(name, "exit", *arguments)
        self.running.pop(name).wait(_WAIT)

    def stop(self, name: str) -> None:
        """Stop a daemon with SIGSTOP, so that it hangs."""
        self.running[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.running[name].send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Let a daemon hang for a while."""
        self.stop(name)
        try:
            yield
        finally:
            self.resume(name)

    def pid(self, name: str) -> int:
        return self.running[name].pid

    def control(self, name: str) -> Path:
        """Its control socket."""
        return self.folder / f"{name}.{self.pid(name)}.ctl"

    def appctl(self, name: str, *arguments: str) -> str:
        """What `ovs-appctl` prints."""
        command = ("ovs-appctl", f"--target={self.control(name)}", *arguments)
        return self.namespace.run(*command, env=self.env)

    def create_database(self, file: str, schema: str) -> None:
        command = ["ovsdb-tool", "create", str(self.folder / file), schema]
        subprocess.run(command, check=True, env=self.env)

    def close(self) -> None:
        for process in self.running.values():
            _end(process)

    @staticmethod
    def wait(until: Callable[[], bool]) -> None:
        """Wait for something that no event reports."""
        deadline = time.monotonic() + _WAIT
        while not until():
            assert time.monotonic() < deadline, f"waited for {_WAIT:g} s"
            time.sleep(0.01)

    def _answers(self, name: str) -> bool:
        assert self.running[name].poll() is None, f"{name} ended: see {self.folder}/{name}.log"
        if not self.control(name).exists():
            return False
        with contextlib.suppress(AssertionError):
            return bool(self.appctl(name, "version"))
        return False


class Daemons(Processes):
    """A switch: ovsdb-server and ovs-vswitchd with bridges in user space.

    Args:
        folder: see `Processes`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Namespace())
        self._file = "conf.db"

    @property
    def paths(self) -> Paths:
        return Paths(ovs=self.folder, ovn=self.folder, root=self.namespace.root)

    @property
    def database(self) -> Path:
        return self.folder / "db.sock"

    def create(self) -> None:
        """Make the database and start both daemons."""
        self.create_database("conf.db", _SCHEMA)
        self.start(OVSDB_SERVER)
        self.vsctl("--no-wait", "init")
        self.start(VSWITCHD)

    def start(self, name: str, *options: str) -> None:
        """Start a daemon that does not run, and wait until it answers."""
        database = f"unix:{self.database}"
        arguments: dict[str, tuple[str, ...]] = {
            OVSDB_SERVER: (str(self.folder / self._file), f"--remote=p{database}"),
            VSWITCHD: (database, "--disable-system"),
            OVN_CONTROLLER: (database,),
        }
        self.spawn(name, name, *arguments[name], "--pidfile", *options)

    def restart(self, name: str) -> None:
        """End a daemon if it runs, and start it."""
        self.kill(name)
        self.start(name)

    def use_schema(self, schema: str = _SCHEMA) -> None:
        """Have ovsdb-server serve another database when it starts the next time, or its own."""
        self._file = "conf.db" if schema == _SCHEMA else "other.db"
        if not (self.folder / self._file).exists():
            self.create_database(self._file, schema)

    @staticmethod
    def descriptors() -> int:
        """How many this process has open."""
        return len(list(Path("/proc/self/fd").iterdir()))

    def vsctl(self, *arguments: str) -> str:
        """What `ovs-vsctl` prints."""
        program = ("ovs-vsctl", f"--db=unix:{self.database}", f"--timeout={_WAIT:g}")
        return self.namespace.run(*program, *arguments, env=self.env)

    def ofctl(self, *arguments: str) -> str:
        """What `ovs-ofctl` prints."""
        return self.namespace.run("ovs-ofctl", *arguments, env=self.env)

    def add_link(self, name: str, peer: str) -> None:
        """Make two devices joined by a cable, both switched on."""
        self.namespace.run("ip", "link", "add", name, "type", "veth", "peer", "name", peer)
        for one in (name, peer):
            self.namespace.run("ip", "link", "set", one, "up")

    def reset(self) -> None:
        """Have both daemons run, without bridges and without devices."""
        self.kill(OVN_CONTROLLER)
        for left in self.folder.glob(f"{OVN_CONTROLLER}.*.ctl"):
            left.unlink()  # that of a host on which it has never run
        for name in (OVSDB_SERVER, VSWITCHD):
            process = self.running.get(name)
            if process is None or process.poll() is not None:
                self.start(name)
            self.resume(name)
        bridges = self.vsctl("list-br").split()
        gone = [word for bridge in bridges for word in ("--", "--if-exists", "del-br", bridge)]
        columns = ("external_ids", "other_config", "manager_options", "ovs_version")
        self.vsctl("--no-wait", "--", "clear", "Open_vSwitch", ".", *columns)
        if gone:
            self.vsctl(*gone[1:])
        for line in self.namespace.run("ip", "-o", "link").splitlines():
            device = line.split(": ")[1].split("@")[0]
            if device != "lo" and not device.startswith("ovs-"):
                with contextlib.suppress(AssertionError):  # went with its peer
                    self.namespace.run("ip", "link", "del", device)

    def close(self) -> None:
        super().close()
        self.namespace.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(_WAIT)
