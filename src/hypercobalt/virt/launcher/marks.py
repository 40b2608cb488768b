"""What the launcher notes in its domain's metadata: since when the guest must end, and why.

It stands with the domain, so that whoever looks at that by virsh sees it, and so that a libvirtd
that was started again still has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

MARKS_NAMESPACE: Final = "http://kubevirt.io/launcher"
MARKS_PREFIX: Final = "launcher"

_SHUTDOWN: Final = re.compile(r"\sshutdown=['\"]([^'\"]+)['\"]")
_SIGNALLED: Final = re.compile(r"\ssignalled=['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class DomainMarks:
    """Times, aware; None for what has not happened.

    Args:
        shutdown: the guest was first asked to shut down.
        signalled: the pod was told to end.
    """

    shutdown: datetime | None = None
    signalled: datetime | None = None


def element_of(marks: DomainMarks) -> str:
    """The element in the domain's metadata."""
    times = {"shutdown": marks.shutdown, "signalled": marks.signalled}
    shown = "".join(f' {name}="{at.isoformat()}"' for name, at in times.items() if at)
    return f"<ending{shown}/>"


def marks_of(element: str | None) -> DomainMarks:
    """Read what `element_of` wrote; what cannot be read counts as not written."""
    text = element or ""
    return DomainMarks(_time(_SHUTDOWN.search(text)), _time(_SIGNALLED.search(text)))


def _time(found: re.Match[str] | None) -> datetime | None:
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(found[1])
    except ValueError:
        return None
    return at if at.tzinfo else None
