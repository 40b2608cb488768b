"""Paths of the machine that its hosts see, as systemd-nspawn is given them."""

from __future__ import annotations

import sys
from pathlib import Path


def needed_binds() -> tuple[Path, ...]:
    """What a host must see to run our own code: it may lie on another file system than `/`.

    A path below `/usr` is in the host anyway.
    """
    source = Path(__file__).resolve().parents[2]
    wanted = {source, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    outside = (path for path in wanted if not Path("/usr").is_relative_to(path))
    return tuple(sorted(path for path in outside if not path.is_relative_to("/usr")))


def escaped(path: Path) -> str:
    """A path in an option of systemd-nspawn, where a colon parts two paths."""
    return str(path).replace("\\", "\\\\").replace(":", "\\:")
