"""The domain document of a VirtualMachineInstance, by device. Pure.

`document(vmi, context)` is what the launcher passes to libvirt.
"""

from hypercobalt.vmi.domain.context import DomainContext, ImageFormat, Tap
from hypercobalt.vmi.domain.document import document, domain_name

__all__ = ["DomainContext", "ImageFormat", "Tap", "document", "domain_name"]
