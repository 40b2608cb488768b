"""Rules about where a guest runs, under which names, and how it starts and leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required
from hypercobalt.vmi.rules.syntax import is_address, is_label, is_subdomain

_STRATEGIES: Final = frozenset({"None", "LiveMigrate", "LiveMigrateIfPossible", "External"})
_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCHES: Final = 2048


def names(spec: At) -> Iterator[FieldCause]:
    """Whether hostname, subdomain and service account can be those of a pod."""
    hostname, subdomain, account = spec["hostname"], spec["subdomain"], spec["serviceAccountName"]
    if hostname.text and not is_label(hostname.text):
        yield invalid(hostname, "must be a DNS label")
    if subdomain.text and not is_subdomain(subdomain.text):
        yield invalid(subdomain, "must be a DNS subdomain")
    if account.text and not is_subdomain(account.text):
        yield invalid(account, "must be a DNS subdomain")
    volumes = {one["serviceAccount.serviceAccountName"].text for one in spec["volumes"]} - {""}
    if account.text and volumes and volumes != {account.text}:
        yield invalid(account, "must be that of the volume")


def strategies(spec: At) -> Iterator[FieldCause]:
    """Whether the guest can start, and leave its node, in that way."""
    start, evict = spec["startStrategy"], spec["evictionStrategy"]
    if start and start.text != "Paused":
        yield invalid(start, "must be Paused")
    elif start and spec["livenessProbe"]:
        yield invalid(start, "must not be Paused with a liveness probe")
    if evict and evict.text not in _STRATEGIES:
        yield invalid(evict, f"must be one of {', '.join(sorted(_STRATEGIES))}")


def resolver(spec: At) -> Iterator[FieldCause]:
    """Whether the settings of DNS can be those of a pod. KubeVirt names them without their path."""
    config = spec["dnsConfig"]
    servers, searches = config["nameservers"], config["searches"]
    if spec["dnsPolicy"].text == "None":
        if not config:
            yield required(config, "is required if dnsPolicy is None")
            return
        if not servers.items:
            yield required("nameservers", "are required if dnsPolicy is None")
            return
    if len(servers.items) > _MOST_SERVERS or not all(is_address(one.text) for one in servers):
        yield invalid("nameservers", "must be at most 3 IP addresses")
    texts = [one.text for one in searches]
    domains = all(is_subdomain(text.removesuffix(".")) for text in texts)
    too_many = len(texts) > _MOST_SEARCHES or len(" ".join(texts)) > _LONGEST_SEARCHES
    if too_many or not domains:
        yield invalid("searchDomains", "must be DNS subdomains")
    if any(not one["name"].text for one in config["options"]):
        yield invalid("options", "must have a name")


def claims(spec: At) -> Iterator[FieldCause]:
    """Whether each resource claim has a name, and one source."""
    for claim in spec["resourceClaims"]:
        if not is_label(claim["name"].text):
            yield invalid(claim["name"], "must be a DNS label")
        sources = claim.holds("resourceClaimName", "resourceClaimTemplateName")
        if len(sources) != 1:
            yield invalid(claim, "must have one source")
        for name in sources:
            if not is_subdomain(claim[name].text):
                yield invalid(claim[name], "must be a DNS subdomain")


def utility_volumes(spec: At) -> Iterator[FieldCause]:
    """Whether volumes for tools name a claim, and no other volume."""
    found = spec["utilityVolumes"]
    taken = {one["name"].text for one in spec["volumes"]}
    bad = any(
        not one["claimName"].text or one["name"].text in taken or one["type"].text for one in found
    )
    if bad or found.items:
        yield invalid(found, "must not be set when a guest is created")
