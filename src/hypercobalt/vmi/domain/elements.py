"""Elements of a document out of hostile values: escaped, without control characters, bounded.

Every value goes through `element`; nothing in this room writes markup as text. Characters that XML
does not have would make a document that no parser takes, and libvirt would answer with a message
that names neither field nor object.

Source: XML 1.0 (Char); libvirt takes neither control characters nor long texts in what we write.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.vmi.unfit import UnfitVMIError

LONGEST: Final = 4096
"""Characters of one value; a kernel takes fewer in its command line."""

_UNFIT: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

Value = str | int | None


def element(tag: str, *children: Element | None, text: str = "", **attributes: Value) -> Element:
    """An element with its attributes, children and text.

    Args:
        tag: never a value of a VMI.
        children: None is left out.
        text: its content; "" for none.
        attributes: None is left out.

    Raises:
        UnfitVMIError: a value has control characters, or is too long.
    """
    made = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            made.set(name, _checked(str(value), f"{tag}/@{name}"))
    if text:
        made.text = _checked(text, tag)
    made.extend(child for child in children if child is not None)
    return made


def switch(*, on: bool) -> str:
    """The value of an attribute that libvirt has as `on` or `off`."""
    return "on" if on else "off"


def yes(*, so: bool) -> str:
    """The value of an attribute that libvirt has as `yes` or `no`."""
    return "yes" if so else "no"


def alias(name: str) -> Element:
    """The name by which a device of the VMI is found in events; `ua-` makes it the user's own."""
    return element("alias", name=f"ua-{name}")


def _checked(value: str, where: str) -> str:
    if len(value) > LONGEST:
        raise UnfitVMIError("spec", f"the value of {where} is longer than {LONGEST} characters")
    found = _UNFIT.search(value)
    if found is not None:
        raise UnfitVMIError("spec", f"the value of {where} has the character {found[0]!a}")
    return value
