"""Verdicts that are others than KubeVirt's, each with its reason.

Not here: fields and values that are not honoured, as their causes say (`vmi/support.py`,
`vmi/rules/nonsense.py`), and what is stricter at the very fields that the recordings name for it.
"""

from __future__ import annotations

from typing import Final

DERIVED: Final = "stricter by decision; the field is derived from the one that was sent"
INT32: Final = "the definition says int32, which a real API server refuses beyond, too"
ONCE: Final = "a finalizer is there once; KubeVirt adds it again"
WRAPPED: Final = "KubeVirt reads a negative number of CPUs as one beyond 4 billion, then refuses it"
NO_TDX: Final = "KubeVirt prepares TDX before it refuses it; here nobody will"

DIFFERENCES: Final = {
    "24ae679e432b8b21": DERIVED,  # a request of a million CPUs
    "1cc1429f8de4c2f7": INT32,  # maxSockets 4294967295
    "b27fa25d84d2e73f": ONCE,
    "e4b681a744534c09": WRAPPED,
    "3c4a169639b87525": WRAPPED,
    "e0c4413d7ec80744": WRAPPED,
    "5a7dae7fb058e8c6": NO_TDX,
    "0412d04ab25b7da1": NO_TDX,
}
"""Reason by the id of the recorded case."""
