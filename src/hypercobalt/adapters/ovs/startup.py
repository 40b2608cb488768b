"""What ovn-controller has from outside Open vSwitch's database: its command line, and one file.

The name of the chassis is that of the option `-n`, else of the file `system-id-override`, else of
`external_ids:system-id`. Files of TLS are those of the database's SSL row, else of the options.

Source: ovn-controller(8), "PKI Options" and "Configuration"; getopt_long(3) for the forms of an
option; OVN's controller/ovn-controller.c, `get_file_system_id`, which reads 63 bytes of a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from hypercobalt.adapters.ovs.model import ControllerStart, TlsFiles

_OVERRIDE: Final = "system-id-override"
_FOLDER: Final = "OVN_SYSCONFDIR"
_DEFAULT_FOLDER: Final = "/etc"  # not /etc/ovn, as Debian's and Ubuntu's packages are built
_LONGEST_NAME: Final = 63  # bytes
_NAMED: Final = {"p": "private-key", "c": "certificate", "C": "ca-cert", "n": "n"}
_CA: Final = ("ca-cert", "bootstrap-ca-cert")


def file_system(proc: Path, process: int) -> Path:
    """The root of a process's file system, where the kernel lets us; else of this process's.

    A daemon in a container has its files elsewhere. Without CAP_SYS_PTRACE they cannot be reached
    through the process, only by a mount at the same path.
    """
    with suppress(OSError):
        if (root := proc / str(process) / "root").is_dir():
            return root
    return proc.parent


def controller_start(proc: Path, process: int) -> ControllerStart:
    """Read how a process of ovn-controller was started; what cannot be read is not set."""
    options = dict(_options(_words(proc / str(process) / "cmdline")[1:]))
    key, certificate = options.get("private-key", ""), options.get("certificate", "")
    authority = next((options[name] for name in _CA if name in options), "")
    given = key or certificate or authority
    tls = TlsFiles(key, certificate, authority) if given else None
    return ControllerStart(options.get("n") or _override(proc, process), tls)


def _override(proc: Path, process: int) -> str:
    given = (one.partition("=") for one in _words(proc / str(process) / "environ"))
    settings = {name: value for name, _, value in given}
    folder = settings.get(_FOLDER) or _DEFAULT_FOLDER
    file = file_system(proc, process) / folder.lstrip("/") / _OVERRIDE
    with suppress(OSError):
        if file.is_file():  # a pipe would be waited for
            with file.open("rb") as opened:
                line = opened.readline(_LONGEST_NAME)
                return line.rstrip(b"\r\n").decode(errors="replace")
    return ""


def _words(file: Path) -> list[str]:
    """Words with a zero byte after each; none of a process that is gone or not ours to read."""
    with suppress(OSError):
        return file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return []


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options that are read here, with their values; the last of a name counts."""
    rest = iter(words)
    for word in rest:
        if word == "--":
            return
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
            if name in {*_NAMED.values(), *_CA}:
                yield name, value if given else next(rest, "")
        elif word[:1] == "-" and word[1:2] in _NAMED:
            yield _NAMED[word[1]], word[2:] or next(rest, "")
