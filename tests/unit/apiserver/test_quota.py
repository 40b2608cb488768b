"""Whose bytes are counted, and when they count no more."""

from __future__ import annotations

import pytest

from hypercobalt.apiserver.errors import StatusError, Subject
from hypercobalt.apiserver.quota import OF_A_HOST, OF_A_USER, Quota, limit_of
from hypercobalt.apiserver.requests.request import NODE_NAME, SYSTEM_USER, User
from hypercobalt.apiserver.storage.objects import Event, EventType, Key

ACCOUNT = "system:serviceaccount:kvm:node-agent"
SUBJECT = Subject("", "configmaps", "a")
KEY, OTHER_KEY = Key("configmaps", "kvm", "a"), Key("configmaps", "kvm", "b")


def agent(node: str) -> User:
    return User(ACCOUNT, extra={NODE_NAME: (node,)})


ON_A, ON_B = agent("kvm-a"), agent("kvm-b")


@pytest.mark.parametrize(
    ("user", "limit"),
    [
        pytest.param(ON_A, OF_A_HOST, id="account-of-a-pod"),
        pytest.param(User("system:node:kvm-a", groups=("system:nodes",)), OF_A_HOST, id="kubelet"),
        pytest.param(User(ACCOUNT), OF_A_USER, id="account-without-a-node"),
        pytest.param(User("jane", extra={NODE_NAME: ("kvm-a",)}), OF_A_USER, id="person"),
        pytest.param(User("admin", groups=("system:masters",)), None, id="administrator"),
        pytest.param(SYSTEM_USER, None, id="server"),
    ],
)
def test_limit_goes_by_what_a_user_is_bound_to(user: User, limit: int | None) -> None:
    assert limit_of(user) == limit


def stored(size: int, kind: EventType = "MODIFIED", key: Key = KEY) -> Event:
    """What the store publishes when an object has so many bytes, with what each object takes."""
    return Event(1, kind, key, b"x" * (size - 1024), None)


def test_user_at_its_limit_is_refused_and_another_node_of_its_account_is_not() -> None:
    quota = Quota()
    quota.charge(ON_A, SUBJECT, KEY, OF_A_HOST)
    with pytest.raises(StatusError) as refused:
        quota.charge(ON_A, SUBJECT, OTHER_KEY, 1)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert "exceeded quota: user system:serviceaccount:kvm:node-agent on kvm-a" in str(
        refused.value.message
    )
    quota.charge(ON_B, SUBJECT, OTHER_KEY, 1)
    quota.charge(ON_A, SUBJECT, KEY, 0)  # a renewal


def test_deleting_and_shrinking_give_back() -> None:
    quota = Quota()
    quota.charge(ON_A, SUBJECT, KEY, 10_000)
    quota.follow(stored(10_000, "ADDED"))
    assert quota.used(ON_A) == 10_000
    quota.follow(stored(4_000))
    assert quota.used(ON_A) == 4_000
    quota.follow(stored(4_000, "DELETED"))
    assert quota.used(ON_A) == 0
    quota.follow(stored(4_000, "DELETED"))
    assert quota.used(ON_A) == 0


def test_writing_into_another_ones_object_counts_for_the_writer_alone() -> None:
    quota = Quota()
    quota.charge(ON_B, SUBJECT, KEY, 2_000)
    quota.charge(ON_A, SUBJECT, KEY, 6_000)
    quota.follow(stored(8_000))
    assert (quota.used(ON_A), quota.used(ON_B)) == (6_000, 2_000)
    quota.follow(stored(3_000))  # the greatest gives back first
    assert (quota.used(ON_A), quota.used(ON_B)) == (1_000, 2_000)


def test_write_that_was_not_stored_counts_no_more() -> None:
    quota = Quota()
    quota.charge(ON_A, SUBJECT, KEY, 2_000)
    quota.take_back(ON_A, KEY, 2_000)
    assert quota.used(ON_A) == 0


def test_administrators_have_no_limit() -> None:
    quota = Quota()
    quota.charge(SYSTEM_USER, SUBJECT, KEY, 10 * OF_A_USER)
    assert quota.used(SYSTEM_USER) == 0
