"""How a rule names what is wrong."""

from __future__ import annotations

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import CauseReason, FieldCause


def invalid(at: At | str, what: str) -> FieldCause:
    """A value that is not allowed."""
    return _cause(CauseReason.INVALID, at, what)


def required(at: At | str, what: str) -> FieldCause:
    """A value that is missing."""
    return _cause(CauseReason.REQUIRED, at, what)


def unsupported(at: At | str, what: str) -> FieldCause:
    """A value that is not one of a closed set."""
    return _cause(CauseReason.NOT_SUPPORTED, at, what)


def duplicate(at: At | str, what: str) -> FieldCause:
    """A value that another one has already."""
    return _cause(CauseReason.DUPLICATE, at, what)


def not_found(at: At | str, what: str) -> FieldCause:
    """A value that names nothing."""
    return _cause(CauseReason.NOT_FOUND, at, what)


def forbidden(at: At | str, what: str) -> FieldCause:
    """A value that may not be set."""
    return _cause(CauseReason.FORBIDDEN, at, what)


def _cause(reason: CauseReason, at: At | str, what: str) -> FieldCause:
    path = at if isinstance(at, str) else at.path
    return FieldCause(reason, path, f"{path} {what}".lstrip())
