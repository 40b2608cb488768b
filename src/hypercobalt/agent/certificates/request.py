"""Decides the next step for a certificate whose key is made on the host. Pure.

The key never leaves the host: a CertificateRequest has its public half. A request is made when the
installed certificate is not good for the host's names any more, or two thirds of its life are over;
one that was denied or has failed is made again after a while. All are for one key, by which the
operator tells the host from whoever else has its token; a new one is made where there is none.
What a crash leaves is found by the key's file: the request in it gives the object its name.

Source: cert-manager, "CertificateRequest" and "Approval"; RFC 5280.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final

from hypercobalt.agent.certificates.check import Validity
from hypercobalt.agent.certificates.pending import Pending
from hypercobalt.api.certificate import (
    CertificateRequest,
    CertificateRequestSpec,
    IssuerReference,
)
from hypercobalt.api.duration import format_duration
from hypercobalt.api.host_certificate import (
    LIFETIME,
    MANAGED_BY,
    USAGES,
    CertificateReason,
    HostNames,
)
from hypercobalt.api.meta import ObjectMeta

AGAIN: Final = timedelta(hours=1)
"""Time between a denial or a failure and the next request."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """Where an agent's requests are, and whose they are.

    Args:
        prefix: of their names, before a dash and a digest.
        namespace: of them.
        agent: value of their label `app.kubernetes.io/managed-by`.
        ca: file with the CA, for an issuer that does not give it.
    """

    prefix: str
    namespace: str
    agent: str
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Requirements for the host's certificate.

    Args:
        names: the host's own.
        issuer: of cert-manager, in the agent's namespace or for the cluster.
        lifetime: requested; the issuer may give less.
    """

    names: HostNames
    issuer: IssuerReference
    lifetime: timedelta = LIFETIME

    @property
    def digest(self) -> str:
        """Equal for equal requests."""
        issuer = self.issuer
        parts = (*self.names.all, issuer.group, issuer.kind, issuer.name, str(self.lifetime))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def request_of(wanted: Wanted, pending: Pending, of: RequestSettings) -> CertificateRequest:
    """The object that requests the pending key's certificate."""
    return CertificateRequest(
        metadata=ObjectMeta(
            name=pending.name(of.prefix),
            namespace=of.namespace,
            labels={MANAGED_BY: of.agent},
        ),
        spec=CertificateRequestSpec(
            request=pending.request,
            issuerRef=wanted.issuer,
            duration=format_duration(wanted.lifetime),
            isCA=False,
            usages=USAGES,
        ),
    )


class RequestState(Enum):
    """How far a request is."""

    PENDING = auto()
    ISSUED = auto()
    DENIED = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class RequestAssessment:
    """The present state of a request.

    Args:
        state: see there.
        message: what is waited for, or what went wrong and what to do.
        since: when it was denied or has failed; None otherwise.
    """

    state: RequestState
    message: str
    since: datetime | None = None


def assess(request: CertificateRequest) -> RequestAssessment:
    """How far a request is, by its conditions."""
    name, status = request.metadata.name, request.status
    found = {condition.type: condition for condition in status.conditions}
    holds = {type_ for type_, condition in found.items() if condition.status == "True"}
    ready = found.get("Ready")
    since = status.failureTime or request.metadata.creationTimestamp
    if "Denied" in holds:
        why = found["Denied"].message or found["Denied"].reason
        text = f"CertificateRequest {name} was denied: {why}"
        return RequestAssessment(
            RequestState.DENIED, text, found["Denied"].lastTransitionTime or since
        )
    if "InvalidRequest" in holds:
        text = f"CertificateRequest {name} is invalid: {found['InvalidRequest'].message}"
        return RequestAssessment(RequestState.FAILED, text, since)
    if status.failureTime is not None or (ready is not None and ready.reason == "Failed"):
        why = ready.message if ready is not None else "no reason given"
        text = f"CertificateRequest {name} failed: {why}; check the issuer"
        return RequestAssessment(RequestState.FAILED, text, since)
    if status.certificate and "Ready" in holds:
        return RequestAssessment(RequestState.ISSUED, f"CertificateRequest {name} was issued")
    if "Approved" not in holds:
        text = f"CertificateRequest {name} waits for approval; check its approver"
        return RequestAssessment(RequestState.PENDING, text)
    why = f": {ready.message}" if ready is not None and ready.message else ""
    return RequestAssessment(
        RequestState.PENDING, f"CertificateRequest {name} waits for its issuer{why}"
    )


class CertificateStep(Enum):
    """Kinds of the next step."""

    REST = auto()  # the installed certificate is good
    MEND = auto()  # put its files, links and modes right
    MAKE = auto()  # a request for the installed key, or for a new one
    REQUEST = auto()  # create the object
    WAIT = auto()  # for approval and issue, or until the next request is due
    INSTALL = auto()
    REMAKE = auto()  # delete the object, and make another request for the pending key
    CLEAN_UP = auto()  # delete the object and the pending key, which is installed


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Everything that the decision rests on.

    Args:
        wanted: digest of the names, the issuer and the lifetime that the certificate must have.
        installed: how long the installed certificate is good; None if it is not good for this host.
        intact: every file, link and mode of that certificate is as installed, and loaded.
        in_use: the pending key is the installed one, and so is its certificate if there is one.
        pending: a key that waits for its certificate; None without one.
        request: the object of the pending key; None while there is none.
        now: UTC.
    """

    wanted: str
    installed: Validity | None
    intact: bool
    in_use: bool
    pending: Pending | None
    request: CertificateRequest | None
    now: datetime


@dataclass(frozen=True, slots=True)
class CertificatePlan:
    """The next step.

    Args:
        step: see there.
        reason: for the condition; None leaves it as it is.
        message: for a person.
        until: when to look again at the latest; None waits for a change.
    """

    step: CertificateStep
    reason: CertificateReason | None = None
    message: str = ""
    until: datetime | None = None


def renewal(validity: Validity) -> datetime:
    """Return when a certificate must be replaced: at two thirds of its life."""
    return validity.not_before + (validity.not_after - validity.not_before) * 2 / 3


def is_old(facts: CertificateFacts) -> bool:
    """Whether a request whose certificate does not fit was made long enough ago to make another."""
    made = facts.request.metadata.creationTimestamp if facts.request else None
    return made is None or made + AGAIN <= facts.now


def decide(facts: CertificateFacts) -> CertificatePlan:
    """Choose the next step."""
    pending, installed = facts.pending, facts.installed
    if installed is not None and not facts.intact:
        return CertificatePlan(CertificateStep.MEND)
    if pending is None:
        if installed is not None and facts.now < renewal(installed):
            text = f"installed, good until {installed.not_after:%Y-%m-%dT%H:%M:%SZ}"
            return CertificatePlan(
                CertificateStep.REST, CertificateReason.READY, text, renewal(installed)
            )
        return CertificatePlan(CertificateStep.MAKE)
    is_fresh = installed is not None and facts.now < renewal(installed)
    if facts.in_use and (is_fresh or facts.request is not None):
        return CertificatePlan(CertificateStep.CLEAN_UP)
    if pending.wanted != facts.wanted:
        return CertificatePlan(CertificateStep.REMAKE)
    if facts.request is None:
        return CertificatePlan(CertificateStep.REQUEST)
    if facts.request.spec.request != pending.request:
        return CertificatePlan(CertificateStep.REMAKE)
    return _of_request(facts, assess(facts.request))


def _of_request(facts: CertificateFacts, found: RequestAssessment) -> CertificatePlan:
    match found.state:
        case RequestState.ISSUED:
            return CertificatePlan(CertificateStep.INSTALL)
        case RequestState.PENDING:
            return _waiting(facts, CertificateReason.REQUEST_PENDING, found.message, None)
        case RequestState.DENIED | RequestState.FAILED:
            again = (found.since or facts.now) + AGAIN
            if again <= facts.now:
                return CertificatePlan(CertificateStep.REMAKE)
            denied = found.state is RequestState.DENIED
            reason = (
                CertificateReason.REQUEST_DENIED if denied else CertificateReason.REQUEST_FAILED
            )
            text = f"{found.message}; requested again at {again:%Y-%m-%dT%H:%M:%SZ}"
            return _waiting(facts, reason, text, again)


def _waiting(
    facts: CertificateFacts, reason: CertificateReason, message: str, until: datetime | None
) -> CertificatePlan:
    """The installed certificate counts while it is good; its renewal shows in the message."""
    if facts.installed is not None:
        text = f"installed, good until {facts.installed.not_after:%Y-%m-%dT%H:%M:%SZ}; {message}"
        return CertificatePlan(CertificateStep.WAIT, CertificateReason.READY, text, until)
    return CertificatePlan(CertificateStep.WAIT, reason, message, until)
