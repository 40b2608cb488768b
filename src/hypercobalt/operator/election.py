"""The Lease by which the operators of one shard elect their leader, and how it is found again.

The name of a shard's Lease is a digest of its label selector, as the existing operator has it, so
the Lease carries the selector as well.
"""

from __future__ import annotations

import hashlib
from typing import Final

from hypercobalt.api.coordination import OPERATOR_LEASE, Lease
from hypercobalt.runtime import Election, process_identity

LEASE: Final = OPERATOR_LEASE
"""Name of the Lease of the election without a label selector."""
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
COMPONENT: Final = "hypervisor-operator"
SELECTOR_ANNOTATION: Final = "kvm.cloud.sap/label-selector"


def lease_name(label_selector: str) -> str:
    """Return the name of the Lease of a shard: shards elect their leaders independently."""
    if not label_selector:
        return LEASE
    return f"{hashlib.sha256(f'{LEASE}{label_selector}'.encode()).hexdigest()}.cloud.sap"


def election(label_selector: str, namespace: str) -> Election:
    """Return this process as a candidate for a shard."""
    return Election(
        lease_name(label_selector),
        namespace,
        process_identity(),
        labels={COMPONENT_LABEL: COMPONENT},
        annotations={SELECTOR_ANNOTATION: label_selector},
    )


def selector_of(lease: Lease) -> str | None:
    """Return the label selector of the shard that a Lease elects for; None if it is no election's.

    The Lease's name has to fit: other clients that may write a Lease may put any label on it.
    """
    selector = lease.metadata.annotations.get(SELECTOR_ANNOTATION, "")
    return selector if lease.metadata.name == lease_name(selector) else None
