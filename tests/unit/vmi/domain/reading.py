"""Domain documents made and read, for tests of single rules."""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element, fromstring

import pytest

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.vmi.domain import DomainContext, document
from hypercobalt.vmi.unfit import UnfitVMIError

CONTEXT: Final = DomainContext()


def made(vmi: VirtualMachineInstance, context: DomainContext = CONTEXT) -> Element:
    """The document of a VMI, parsed."""
    return fromstring(document(vmi, context))  # noqa: S314 - it is our own


def one(root: Element, path: str) -> Element:
    """The only element of a path."""
    (found,) = root.findall(path)
    return found


def refused(message: str) -> pytest.RaisesExc[UnfitVMIError]:
    """A refusal whose message begins so."""
    return pytest.raises(UnfitVMIError, match="^" + re.escape(message))
