"""The differences between the embedded server and the real one that we accept, each with a reason.

A difference that is not listed fails its scenario. An entry that no longer matches anything fails
the run: the list never outlives its causes. docs/compatibility.md tells users about them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.conformance.wire import Json


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where the two transcripts of a scenario part."""

    scenario: str
    step: str
    path: str
    real: Json
    ours: Json

    def __str__(self) -> str:
        return f"  {self.path}\n    real: {_cut(self.real)}\n    ours: {_cut(self.ours)}"


@dataclass(slots=True)
class Accepted:
    """A difference that we keep on purpose.

    Args:
        reason: why, for a person who compares the two servers.
        scenario: regular expression on the scenario's name.
        step: regular expression on the step's request line.
        path: regular expression on the place inside the step.
        real: regular expression on what the real server has there.
    """

    reason: str
    scenario: str = ""
    step: str = ""
    path: str = ""
    real: str = ""
    used: int = field(default=0, compare=False)

    def matches(self, difference: Difference) -> bool:
        return bool(
            re.search(self.scenario, difference.scenario)
            and re.search(self.step, difference.step)
            and re.search(self.path, difference.path)
            and re.search(self.real, str(difference.real))
        )


ACCEPTED: list[Accepted] = [
    # -- answers to a client's mistakes ---------------------------------------------------------
    Accepted(
        "A client's mistake is a 4xx that says so; the real server answers 500.",
        scenario="put_must_name|strategic_patch_merges|versions_of|impossible_w|metadata_only",
        step="resourceVersion|nokey|PartialObjectMetadataList",
        path=r"\.status|\.code|\.reason|\.message",
        real="500|absent|strconv|merge key|not a list",
    ),
    Accepted(
        "The words of Go's JSON decoder and of its internal types are not imitated.",
        path=r"\.message",
        real=r"json: cannot unmarshal|unknown conversion|in scheme|Invalid JSON Patch"
        r"|cannot convert int64|cannot restore map|StorageError|got &|error decoding YAML"
        r"|quantities must|invalid object type: /, Kind=$|unexpected end of JSON|415: Unsupp"
        r"|pod updates may not"
        r"|\\x01|continue key is not valid|\"(APIGroup|MinAvailable)\":",
    ),
    Accepted(
        "The real server checks metadata twice and lists each cause twice.",
        path=r"\.details\.causes$",
        real=r"(field is immutable|name part must consist|no new finalizers).*\1",
    ),
    Accepted(
        "JSON patches are RFC 6902's: the real server's library also takes a path without a "
        "slash and indexes that count from the end.",
        scenario="json_patch",
        step=r'"path": "(data/b|/spec/plain/-1|/spec)"',
    ),
    Accepted(
        "An unknown $patch directive and a null strategic patch are refused, not ignored.",
        scenario="strategic_patch_directives",
        step="explode|b'null'",
    ),
    Accepted(
        "Methods that HTTP does not know end in the parser: 400 in plain text.",
        scenario="methods_that",
        step="^FOO",
    ),
    Accepted(
        "A method on the wrong level of a custom resource (PUT on a collection, POST on an "
        "object) is a 405, as for built-in kinds.",
        scenario="methods_that",
        real="name must be provided|already exists|BadRequest|AlreadyExists|400|409|absent"
        "|gadgets|one|example",
    ),
    Accepted(
        "A 415 has no details.",
        scenario="wrong_shape_or_type",
        path=r"\.details$",
        real=r"^\{\}$",
    ),
    Accepted(
        "The supported values of a field stand in the schema's order, at the field's own path.",
        scenario="pod_is_validated|node_is_defaulted",
        step="^POST",
        path=r"\.details\.causes|\.message",
        real="supported values|metadata.taints",
    ),
    Accepted(
        "A DaemonSet without a selector is told that it needs one.",
        scenario="daemon_set_is_defaulted",
        path=r"\.details\.causes|\.message",
        real="template.metadata.labels",
    ),
    Accepted(
        "Certificates are not read, so there is no warning about odd ones.",
        path=r"headers\.warning",
        real="PEM data",
    ),
    Accepted(
        "What a delete demands is checked in one place, for Namespaces too; and their content goes "
        "at once, as the collector is part of the server.",
        scenario="terminating_namespace",
        step="preconditions|still",
        path=r"\.details\.kind|\.message|metadata\.(deletion|resourceVersion)",
    ),
    Accepted(
        "Nobody owns a Role's empty list of rules, which is stored as null.",
        scenario="put_creates_what",
        path="managedFields$",
    ),
    Accepted(
        "Bodies that are no JSON, no YAML or no object are refused in this server's own words.",
        path=r"\.message$",
        real="the object provided is unrecognized",
    ),
    Accepted(
        "Nulls, several documents and text that is not UTF-8 are refused as bodies, not read as "
        "something else; numbers beyond float64 as bad JSON.",
        scenario="malformed_bodies|odd_text",
        step=r"b'null'|--- \{\}|xff|ud800|^GET|999|e400",
    ),
    Accepted(
        "Unknown and duplicate fields are listed in another order; duplicates in YAML are "
        "not seen.",
        scenario="field_validation",
        step="Strict|yaml",
        real="decoding error: .*, |already set in map",
    ),
    Accepted(
        "What is wrong with a patched object is said without printing the object in Go's order.",
        path=r"\.details\.causes|\.message|^\[2\]\[0\]$",
        real=r"is invalid: patch: Invalid value|'field': 'patch'|Invalid value: \"(map\[|\{)",
    ),
    Accepted(
        "There are no warnings about unknown formats and about faults that an object keeps.",
        path=r"headers\.warning",
        real="unrecognized format|: Invalid value: |unknown field ..spec",
    ),
    Accepted(
        "Escapes and timeouts in a query that Go cannot parse are not looked at.",
        scenario="odd_queries",
        step="%zz|timeout=x|%00",
    ),
    Accepted(
        "An object of the wrong kind is defaulted before it is refused.",
        scenario="custom_object_envelope",
        real="must be Gadget",
    ),
    Accepted(
        "The metadata of an embedded object is judged by its schema: 422, not 400.",
        scenario="custom_values",
        step="template-bad-meta",
    ),
    # -- CustomResourceDefinitions --------------------------------------------------------------
    Accepted(
        "A faulty version list is reported without Go's dump of its types, a faulty pattern and an "
        "operand of && or || that is no condition with the words of our engines.",
        path=r"\.details\.causes|\.message",
        real=r'\{"Name":|error parsing regexp|expected type .bool. but found',
    ),
    Accepted(
        "An empty message of a rule is stored as it was sent.",
        scenario="refused_rules",
        path=r"x-kubernetes-validations\[0\]\.message$",
    ),
    Accepted(
        "Who wrote a scale is kept with the time, as of every write.",
        scenario="definition_with_scale",
        path=r"managedFields\[\d\]\.time$",
        real="absent",
    ),
    Accepted(
        "Definitions with a conversion webhook are refused by name, whatever else is wrong with "
        "these.",
        scenario="refused_definitions",
        path=r"\.details\.causes|\.message",
        real="webhookClientConfig",
    ),
    # -- forms of answers -----------------------------------------------------------------------
    Accepted(
        "Answers in protobuf are not given, and 406 and 415 do not offer them.",
        path=r"\.message",
        real="application/vnd.kubernetes.protobuf$",
    ),
    Accepted(
        "application/* is taken for built-in kinds as it is for custom ones; a 406 has no details.",
        scenario="accept_headers",
        step=r"configmaps/one accepting (application/\*|text/html|garbage)$",
    ),
    Accepted(
        "The deprecated /watch/ paths are not served.",
        step="/watch/",
    ),
    Accepted(
        "A watch of a custom kind may begin before its definition; the real cache begins with it.",
        scenario="impossible_watches",
        step="gadgets.*resourceVersion=1$",
        real="too old resource version",
    ),
    Accepted(
        "A watch of a version that is gone is told so in the words of the real server's cache.",
        scenario="compacted_versions",
        step="^WATCH",
        path=r"\.message$",
        real="provided watch is too old",
    ),
    Accepted(
        "A Table of DaemonSets shows the objects' metadata as it is stored.",
        scenario="workload_rows",
        path=r"metadata\.annotations",
    ),
    Accepted(
        "The version is marked as this server's own.",
        scenario="group_lists",
        step="/version$",
        real=r"^v1\.\d+\.\d+$",
    ),
    Accepted(
        "The OpenAPI of a custom kind has no lists, and does not spell out what an embedded "
        "object or an integer or string is.",
        scenario="openapi_of_a_custom",
        path=r"\.anyOf$|template\.|^$",
    ),
    Accepted(
        "Evictions are not discovered, as they are not served.",
        scenario="discovery|served_group",
        real="Eviction",
    ),
    # -- what only a cluster has ----------------------------------------------------------------
    Accepted(
        "There is no Service network: no cluster IPs or node ports are given out.",
        path=r"[.:](clusterIPs?|ipFamilies|ipFamilyPolicy|nodePort)|\.cells",
        real="clusterIP|IPv|Stack|nodePort|absent",
    ),
    Accepted(
        "A Service has no cluster IP that a client may not change.",
        scenario="service_is_defaulted",
        step="^PATCH.*clusterIP",
    ),
    Accepted(
        "Pods are not evicted: there is no disruption controller to say whether they may be.",
        scenario="eviction_of_pods",
    ),
    Accepted(
        "Kinds without a generation do not keep one that a client made up.",
        scenario="server_owned_metadata",
        path=r"metadata\.generation",
        real="7",
    ),
    # -- gaps: what is to be built, not a choice ------------------------------------------------
    Accepted(
        "An evaluation error of a rule is told in the engine's words.",
        scenario="rules_with_functions_over_text|rules_over_values",
        path=r"\.message$",
        real=r"evaluating rule|substring",
    ),
    Accepted(
        "There is no OpenAPI v2: kubectl says so where it falls back to it.",
        scenario="apply_on_the_client",
        real="no matches for kind",
    ),
]


def unaccepted(differences: Iterable[Difference]) -> list[Difference]:
    """Return those that no entry of the list covers, and count the use of the entries that do."""
    left = []
    for difference in differences:
        entry = next((entry for entry in ACCEPTED if entry.matches(difference)), None)
        if entry is None:
            left.append(difference)
        else:
            entry.used += 1
    return left


def leaves(real: Json, ours: Json, path: str = "") -> list[tuple[str, Json, Json]]:
    """Return the places where two decoded JSON values differ, as (path, real, ours)."""
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = sorted(real.keys() | ours.keys())
        pairs = [(f"{path}.{key}", real.get(key, ABSENT), ours.get(key, ABSENT)) for key in keys]
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        pairs = [(f"{path}[{n}]", *pair) for n, pair in enumerate(zip(real, ours, strict=True))]
    elif type(real) is type(ours) and real == ours:
        return []
    else:
        return [(path, real, ours)]
    return [leaf for at, left, right in pairs for leaf in leaves(left, right, at)]


class _Absent:
    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()
SHOWN = 1200  # characters of a value in a report


def _cut(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
