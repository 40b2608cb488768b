"""Reads libvirt's XML without trusting it: a small tree of the parts that are wanted.

Names, metadata and device addresses in these documents come from tenants. So the size, the depth,
the number of elements and the length of tags and attributes are bounded, document types (and with
them entities) are refused, and everything outside the wanted parts is skipped as it streams by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers.expat import ExpatError, ParserCreate

# libvirt's own limit of a string on the wire (REMOTE_STRING_MAX).
_MAX_BYTES = 4 * 1024 * 1024
_CHUNK = 512 * 1024  # expat reads a piece to its end after a handler has refused
_MAX_DEPTH = 64
_MAX_ELEMENTS = 50_000  # kept
_MAX_SKIPPED = 200_000  # a guest with 500 devices has some 10,000
_MAX_ATTRIBUTE = 64 * 1024  # every other one of the CPUs that libvirt counts is named in 48 KiB
_MAX_TEXT = 4096
_MAX_TAG = 256 * 1024  # with the text after it
# expat takes a tag in one go: 300,000 attributes keep every other thread waiting for 0.4 s.
_LONG_TAG = re.compile(rb"<[^<]{%d}" % _MAX_TAG)


class DocumentError(ValueError):
    """The document cannot be read; the message has the reason, never the contents."""


class TooManyElementsError(DocumentError):
    """The document has more elements to keep than are allowed."""


@dataclass(slots=True)
class Element:
    """One element: what stands in it, without its tail."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    children: list[Element] = field(default_factory=list["Element"])

    def all(self, path: str) -> Iterator[Element]:
        """Descendants by child tags, such as `cputune/vcpupin`, in the document's order."""
        head, _, rest = path.partition("/")
        for child in self.children:
            if child.tag == head:
                if rest:
                    yield from child.all(rest)
                else:
                    yield child

    def first(self, path: str) -> Element | None:
        """The first of `all`, if any."""
        return next(self.all(path), None)

    def get(self, attribute: str, default: str = "") -> str:
        return self.attributes.get(attribute, default)

    def text_of(self, path: str) -> str:
        """Text of the first element at the path, "" without one."""
        found = self.first(path)
        return found.text.strip() if found else ""


class _Builder:
    """Keeps the root and, below it, the wanted parts with all that is in them."""

    def __init__(self, wanted: frozenset[str] | None, most: int, *, others: bool) -> None:
        self.root: Element | None = None
        self._most, self._all, self._others = most, wanted is None, others
        self._wanted = dict[str, set[str]]()  # child of the root: its own wanted children, or all
        for path in wanted or ():
            tag, _, child = path.partition("/")
            self._wanted.setdefault(tag, set()).update({child} - {""})
        self._open: list[Element] = []
        self._skipped = 0  # depth inside an unwanted part
        self._kept = self._passed = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if self._skipped or not self._is_wanted(tag):
            self._skipped += 1
            self._passed += 1
            if self._passed > _MAX_SKIPPED:
                raise DocumentError(f"more than {_MAX_SKIPPED} elements that do not matter here")
            self._check_depth(len(self._open) + self._skipped)
            return
        self._kept += 1
        if self._kept > self._most:
            raise TooManyElementsError(f"more than {self._most} elements")
        if any(len(value) > _MAX_ATTRIBUTE for value in attributes.values()):
            raise DocumentError(f"<{tag[:40]}> has an attribute longer than {_MAX_ATTRIBUTE}")
        element = Element(tag, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._check_depth(len(self._open))

    def _is_wanted(self, tag: str) -> bool:
        if self._all:
            return True
        match self._open:
            case [_]:
                return self._others or tag in self._wanted
            case [_, parent]:
                return tag in (self._wanted.get(parent.tag) or {tag})
            case _:
                return True

    def end(self, _tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        else:
            self._open.pop()

    def data(self, text: str) -> None:
        if self._open and not self._skipped and len(self._open[-1].text) < _MAX_TEXT:
            self._open[-1].text += text

    def doctype(self, *_: object) -> None:
        raise DocumentError("it has a document type, which libvirt never writes")

    @staticmethod
    def _check_depth(depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise DocumentError(f"elements nested more than {_MAX_DEPTH} deep")


def read(
    document: str | bytes,
    *,
    root: str,
    wanted: frozenset[str] | None,
    most: int = _MAX_ELEMENTS,
    others: bool = False,
) -> Element:
    """Parse a document, keeping the wanted parts of its root.

    Args:
        document: text as libvirt gives it, or bytes in UTF-8.
        root: tag that the root must have.
        wanted: children of the root to keep, `os`, or only some children of one, `devices/disk`;
            None keeps all.
        most: elements that are kept.
        others: children of the root that `wanted` does not name are kept, too.

    Raises:
        TooManyElementsError: it has more elements to keep than `most`.
        DocumentError: too large, too deep, not well-formed, not UTF-8, another root.
    """
    try:
        data = document.encode() if isinstance(document, str) else document
    except UnicodeEncodeError as exc:
        raise DocumentError("it is not UTF-8") from exc
    if len(data) > _MAX_BYTES:
        raise DocumentError(f"it has {len(data)} bytes, more than {_MAX_BYTES}")
    if _LONG_TAG.search(data):
        raise DocumentError(f"a tag with the text after it has more than {_MAX_TAG} bytes")
    builder = _Builder(wanted, most, others=others)
    parser = ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = builder.doctype
    try:
        for start in range(0, len(data), _CHUNK):
            parser.Parse(data[start : start + _CHUNK], False)
        parser.Parse(b"", True)
    except ExpatError as exc:
        raise DocumentError(f"it is not well-formed XML: {exc}") from exc
    if builder.root is None or builder.root.tag != root:
        raise DocumentError(f"its root is not <{root}>")
    return builder.root
