"""A value within an object, with its path: how rules read plain JSON.

What is absent, null or of another type reads as empty, as in KubeVirt, so no rule can fail on what
a client sends. The schema's types are checked before (`shape.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.api.quantity import Quantity, QuantityError, from_wire
from hypercobalt.vmi.review import Json, JsonObject

_ZERO: Final = Quantity(0)


class At:
    """A value and where it stands; falsy when it is absent.

    Attributes:
        path: from the root of the object, such as `spec.volumes[0].name`; "" for the root itself.
        value: None when absent.
    """

    __slots__ = ("path", "value")

    def __init__(self, value: Json, path: str = "") -> None:
        self.value = value
        self.path = path

    def __getitem__(self, names: str) -> At:
        """The value below, by one name or several with dots between."""
        value, path = self.value, self.path
        for name in names.split("."):
            value = value.get(name) if isinstance(value, dict) else None
            path = f"{path}.{name}" if path else name
        return At(value, path)

    def __iter__(self) -> Iterator[At]:
        """The items of a list."""
        if isinstance(self.value, list):
            for index, item in enumerate(self.value):
                yield At(item, f"{self.path}[{index}]")

    def __bool__(self) -> bool:
        return self.value is not None

    def __repr__(self) -> str:
        return f"At({self.path})"

    @property
    def members(self) -> JsonObject:
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[Json]:
        return self.value if isinstance(self.value, list) else []

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else ""

    @property
    def number(self) -> int:
        """A whole number; 0 when absent."""
        if isinstance(self.value, float):
            return int(self.value) if self.value.is_integer() else 0
        return self.value if isinstance(self.value, int) else 0

    @property
    def flag(self) -> bool:
        """Whether it is true."""
        return self.value is True

    @property
    def quantity(self) -> Quantity | None:
        """The amount, or None when it is absent or no amount."""
        if isinstance(self.value, bool) or not isinstance(self.value, (str, int, float)):
            return None
        found = from_wire(self.value)
        try:
            _ = found.nanos
        except QuantityError:
            return None
        return found

    @property
    def amount(self) -> Quantity:
        """The amount; 0 when it is absent or no amount."""
        return self.quantity or _ZERO

    def holds(self, *names: str) -> list[str]:
        """Which of these members are set."""
        return [name for name in names if self.members.get(name) is not None]
