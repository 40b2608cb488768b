"""A second hand on a libvirt daemon: virsh, as a person at the host has it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory


class HandError(Exception):
    """virsh failed; the message is its own."""


class Hand:
    """Changes the domains of one daemon. Each call blocks for some hundredths of a second.

    Args:
        uri: of the daemon.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def __call__(self, *words: str) -> str:
        """Run one command of virsh, and return its output.

        Raises:
            HandError: virsh refuses.
        """
        command = ["virsh", "--quiet", "--connect", self._uri, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HandError(done.stderr.strip())
        return done.stdout.strip()

    def define(self, *documents: str) -> None:
        """Define domains, by one process."""
        self._each("define", documents)

    def create(self, *documents: str) -> None:
        """Start transient domains, by one process."""
        self._each("create", documents)

    def uuid(self, name: str) -> str:
        """The UUID of a domain."""
        return self("domuuid", name)

    def names(self, *flags: str) -> set[str]:
        """Names of the active domains, or of those that the flags select."""
        return set(self("list", "--name", *flags).split("\n")) - {""}

    def _each(self, command: str, documents: tuple[str, ...]) -> None:
        with TemporaryDirectory() as directory:
            files = [Path(directory) / str(number) for number in range(len(documents))]
            for file, document in zip(files, documents, strict=True):
                file.write_text(document)
            self("; ".join(f"{command} {file}" for file in files))
