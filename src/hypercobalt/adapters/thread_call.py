"""Blocking calls that a thread makes and the event loop waits for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")
Job = Callable[[], None]


def thread_call(call: Callable[[], Answer]) -> tuple[Future[Answer], Job]:
    """Make of a call its answer to come and the job that brings it, on whatever thread."""
    answer: Future[Answer] = Future()

    def job() -> None:
        if not answer.set_running_or_notify_cancel():
            return  # the awaiting task has given up
        try:
            answer.set_result(call())
        except BaseException as exc:  # noqa: BLE001  raised where the answer is awaited
            answer.set_exception(exc)

    return answer, job
