"""Rules about where a guest runs, under which names, and how it starts and leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import duplicate, invalid, required
from hypercobalt.vmi.rules.syntax import is_address, is_label, is_subdomain

_STRATEGIES: Final = frozenset({"None", "LiveMigrate", "LiveMigrateIfPossible", "External"})
_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 6
_LONGEST_SEARCHES: Final = 256


def names(spec: At) -> Iterator[FieldCause]:
    """Whether hostname, subdomain and service account can be those of a pod."""
    hostname, subdomain, account = spec["hostname"], spec["subdomain"], spec["serviceAccountName"]
    if hostname.text and not is_label(hostname.text):
        yield invalid(hostname, "must be a DNS label")
    if subdomain.text and not is_subdomain(subdomain.text):
        yield invalid(subdomain, "must be a DNS subdomain")
    if account.text and not is_subdomain(account.text):
        yield invalid(account, "must be a DNS subdomain")
    named = (one["serviceAccount"] for one in spec["volumes"] if one["serviceAccount"])
    if account.text and any(one["serviceAccountName"].text != account.text for one in named):
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
    length = len(" ".join(texts).encode("utf-8", "surrogatepass"))
    if len(texts) > _MOST_SEARCHES or length > _LONGEST_SEARCHES:
        most = f"{_MOST_SEARCHES} domains of {_LONGEST_SEARCHES} characters together"
        yield invalid("searchDomains", f"must be at most {most}")
    if not all(is_subdomain(text) for text in texts):
        yield invalid("searchDomains", "must be DNS subdomains")
    if any(not one["name"].text for one in config["options"]):
        yield invalid("options", "must have a name")


def claims(spec: At) -> Iterator[FieldCause]:
    """Whether each resource claim has a name, and one source."""
    seen = set[str]()
    for claim in spec["resourceClaims"]:
        name = claim["name"]
        if not name.text:
            yield required(name, "is required")
        elif name.text in seen:
            yield duplicate(name, "is the name of another claim")
        elif not is_label(name.text):
            yield invalid(name, "must be a DNS label")
        seen.add(name.text)
        sources = claim.holds("resourceClaimName", "resourceClaimTemplateName")
        if len(sources) != 1:
            yield invalid(claim, "must have one source")
        for source in sources:
            if not is_subdomain(claim[source].text):
                yield invalid(claim[source], "must be a DNS subdomain")


def utility_volumes(spec: At) -> Iterator[FieldCause]:
    """Whether there are no volumes for tools yet: a running guest alone gets them."""
    found = spec["utilityVolumes"]
    if found.items:
        yield invalid(found, "must not be set when a guest is created")
