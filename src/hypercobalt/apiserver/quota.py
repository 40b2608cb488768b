"""How many bytes of the stored objects each user may have caused.

A write counts by what it adds to its object, for whom it was made, until the object shrinks or
goes. So no user pays for what another one wrote into the same object, and what a captured host can
store is bounded: its agents' accounts are a user for each Node. Writes that add nothing, such as
renewals of a Lease, are never refused, nor are deletes, nor administrators. What was stored before
the server started counts for no user.

Decision: docs/decisions/0051-connections-and-stored-bytes.md.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.requests.request import MASTERS, User
from hypercobalt.apiserver.storage.objects import Event, Key

MIB: Final = 2**20
OF_A_HOST: Final = 16 * MIB
"""Bytes of a user that is bound to one Node: its kubelet, and each account of its pods."""

OF_A_USER: Final = 256 * MIB
"""Bytes of any other user, such as the operator of 10,000 hosts."""

OF_AN_OBJECT: Final = 1024
"""Bytes that an object takes beyond its own, so that many small ones count as well."""


class Quota:
    """The bytes of each user, by object."""

    def __init__(self) -> None:
        self._by_key = dict[Key, Counter[str]]()
        self._by_user = Counter[str]()

    def used(self, user: User) -> int:
        """Bytes that count for a user."""
        return self._by_user[user.flow]

    def charge(self, user: User, subject: errors.Subject, key: Key, added: int) -> None:
        """Count what a write adds, before it is stored.

        Args:
            user: for whom it is made.
            subject: the object, for the refusal.
            key: the object.
            added: bytes; nothing is counted for fewer than one.

        Raises:
            StatusError: 403, the user has too many already.
        """
        most = limit_of(user)
        if added <= 0 or most is None:
            return
        used = self._by_user[user.flow]
        if used + added > most:
            text = (
                f"exceeded quota: user {user.flow} has stored {used} bytes and would add {added}; "
                f"at most {most}. Delete objects, or write less into them"
            )
            raise errors.forbidden(subject, text)
        self._add(key, user.flow, added)

    def take_back(self, user: User, key: Key, added: int) -> None:
        """Forget what `charge` has counted: it was not stored."""
        if added > 0 and limit_of(user) is not None:
            self._add(key, user.flow, -added)

    def follow(self, event: Event) -> None:
        """Give back what no longer is: a listener of the store."""
        counted = self._by_key.get(event.key)
        if counted is None:
            return
        size = 0 if event.type == "DELETED" else OF_AN_OBJECT + len(event.data)
        beyond = counted.total() - size
        for user, amount in counted.most_common() if beyond > 0 else ():
            less = min(amount, beyond)
            self._add(event.key, user, -less)
            beyond -= less

    def _add(self, key: Key, user: str, amount: int) -> None:
        counted = self._by_key.setdefault(key, Counter())
        for counter in (counted, self._by_user):
            counter[user] += amount
            if counter[user] <= 0:
                del counter[user]
        if not counted:
            del self._by_key[key]


def limit_of(user: User) -> int | None:
    """Bytes that a user may have; None without a limit."""
    if MASTERS in user.groups:
        return None
    return OF_A_HOST if user.is_of_a_host else OF_A_USER
