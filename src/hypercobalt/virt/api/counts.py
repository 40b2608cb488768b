"""Counts and times the reviews of virt-api for `/metrics`, by webhook: closed sets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from hypercobalt.virt.api.webhooks import WEBHOOKS

REVIEWS: Final = "hypercobalt_virt_api_reviews_total"
SECONDS: Final = "hypercobalt_virt_api_review_duration_seconds"

_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_CODES: Final = (200, 400, 500)


class ReviewCounts:
    """The metrics of one process; each has a series from the start.

    Args:
        registry: of the process's metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        text = "Reviews by webhook and HTTP status; a refusal of a VirtualMachineInstance is a 200."
        self._reviews = Counter(REVIEWS, text, ("webhook", "code"), registry=registry)
        text = "Time from a review's arrival to its answer."
        labels = ("webhook",)
        self._seconds = Histogram(SECONDS, text, labels, buckets=_BUCKETS, registry=registry)
        for webhook in WEBHOOKS:
            self._seconds.labels(webhook.name)
            for code in _CODES:
                self._reviews.labels(webhook.name, str(code))

    def add(self, webhook: str, code: int) -> None:
        """Count an answer."""
        self._reviews.labels(webhook, str(code)).inc()

    def timed(self, webhook: str) -> AbstractContextManager[object]:
        """Time a review until the context ends."""
        return self._seconds.labels(webhook).time()
