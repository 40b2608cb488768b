"""A BMC that speaks IPMI over LAN, as a process of its own: pyghmi keeps its sessions globally.

    python ipmi_bmc.py PORT PASSWORD FILE

FILE holds the power of its machine, `on` or `off`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyghmi.ipmi.bmc import Bmc


class FileBmc(Bmc):
    """Switches a word in a file."""

    def __init__(self, port: int, password: str, file: Path) -> None:
        super().__init__({"admin": password}, port=port, address="::ffff:127.0.0.1")
        self._file = file

    def get_power_state(self) -> str:
        return self._file.read_text()

    def power_off(self) -> None:
        self._file.write_text("off")

    def power_on(self) -> None:
        self._file.write_text("on")


if __name__ == "__main__":
    bmc = FileBmc(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    bmc.listen()
