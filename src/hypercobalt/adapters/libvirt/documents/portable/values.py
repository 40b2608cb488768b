"""The forms of values. None of them has a character that ends a line, or more than its bound."""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import Form


def form(rule: str, pattern: str) -> Form:
    """A form by its pattern; letters and digits are those of ASCII."""
    return Form(rule, re.compile(pattern, re.ASCII))


def one_of(words: str) -> Form:
    """One of some words, with spaces between."""
    given = words.split()
    return form(
        given[0] if len(given) == 1 else f"one of {', '.join(given)}",
        "|".join(map(re.escape, given)),
    )


YES_NO: Final = one_of("yes no")
YES: Final = one_of("yes")
NO: Final = one_of("no")
ON_OFF: Final = one_of("on off")
NUMBER: Final = form("a number of up to 10 digits", r"[0-9]{1,10}")
SMALL: Final = form("a number of up to 4 digits", r"[0-9]{1,4}")
BIG: Final = form("a number of up to 19 digits", r"[0-9]{1,19}")
THREADS: Final = form("a number of threads, up to 64", r"[0-9]|[1-5][0-9]|6[0-4]")
HEX: Final = form(
    "a number, or one with 0x, of up to 16 digits", r"(0x[0-9A-Fa-f]{1,16}|[0-9]{1,10})"
)
UNIT: Final = one_of("b bytes KB k KiB MB M MiB GB G GiB TB T TiB")
CPUS: Final = form("a set of numbers, up to 4,000 characters", r"[0-9][0-9,^-]{0,3999}")
TOKEN: Final = form(
    "up to 64 letters, digits, or any of _.+-", r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"
)
TYPE: Final = form("up to 64 letters, digits, or any of _.-", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
LINE: Final = Form(
    "up to 1,000 printable characters",
    re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]{0,1000}"),
)
TEXT: Final = Form(
    "up to 2,000 printable characters",
    re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]{0,2000}"),
)
SECRET: Final = form("up to 255 characters of ASCII", r"[ -~]{0,255}")
DOMAIN_NAME: Final = Form(
    "up to 200 letters, digits, blanks, or any of _.:@+()#~-",
    re.compile(r"\w[\w .:@+()#~-]{0,199}"),
)
UUID: Final = form(
    "a UUID", r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
)
MAC: Final = form("a MAC address", r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
