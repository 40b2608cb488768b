"""The volumes behind a guest's disks, and the networks behind its interfaces.

Source: kubevirt.io/api, core/v1/types.go and schema.go.
"""

from __future__ import annotations

from hypercobalt.api.meta import Struct
from hypercobalt.api.quantity import Quantity


class ContainerDisk(Struct, frozen=True):
    """The one file in /disk of an image, below an overlay that is lost with the pod."""

    image: str
    imagePullPolicy: str = ""
    imagePullSecret: str = ""
    path: str = ""


class EmptyDisk(Struct, frozen=True):
    """A new disk that is lost with the pod."""

    capacity: Quantity


class VolumeSpec(Struct, frozen=True):
    """One volume; exactly one source is set, of which these are honoured."""

    name: str
    containerDisk: ContainerDisk | None = None
    emptyDisk: EmptyDisk | None = None


class PodNetwork(Struct, frozen=True):
    vmNetworkCIDR: str = ""  # empty means 10.0.2.0/24
    vmIPv6NetworkCIDR: str = ""  # empty means fd10:0:2::/120


class NetworkSpec(Struct, frozen=True):
    name: str
    pod: PodNetwork | None = None
