"""The differences between the embedded server and the real one that we accept, each with a reason.

A difference that is not listed fails its scenario. An entry that no longer matches anything fails
the run: the list never outlives its causes. docs/apiserver.md has what matters to users.
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
    codes: tuple[int, int] | None = None  # HTTP's, of an answered request: the real one's, ours

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
        codes: the HTTP codes of both answers, where these differ; one of these pairs.
    """

    reason: str
    scenario: str = ""
    step: str = ""
    path: str = ""
    real: str = ""
    codes: tuple[tuple[int, int], ...] = ()
    used: int = field(default=0, compare=False)

    def matches(self, difference: Difference) -> bool:
        return bool(
            (not self.codes or difference.codes in self.codes)
            and re.search(self.scenario, difference.scenario)
            and re.search(self.step, difference.step)
            and re.search(self.path, difference.path)
            and re.search(self.real, str(difference.real))
        )


ACCEPTED: list[Accepted] = [
    # -- answers to a client's mistakes ---------------------------------------------------------
    Accepted(
        "A client's mistake is a 4xx that names it; the real server answers 500.",
        scenario="put_must_name|strategic_patch_merges|versions_of|metadata_only|no_binding",
        step="resourceVersion|nokey|PartialObjectMetadataList|binding .*target",
        codes=((500, 400), (500, 406), (500, 422)),
    ),
    Accepted(
        "What is applied and does not fit its schema is the client's mistake, too.",
        scenario="applies_are|not_applied|undeclared_fields|apply_accepts|applied_deployment"
        "|many_faults|validation_of_patches|numbers_of_a_built_in|schema_closes",
        step="PATCH .*fieldManager",
        codes=((500, 400),),
    ),
    Accepted(
        "The same of a watch.",
        scenario="impossible_w",
        step="resourceVersion=(abc|-1)$",
        path=r"\.status$|\.code|\.reason|\.message",
        real="500|absent|strconv|ParseUint|Invalid value",
    ),
    Accepted(
        "An apply of fields that are pruned changes nothing; the real server counts each one.",
        scenario="schema_leaves_open",
        step="PATCH .*fieldManager",
        path=r"metadata\.generation$",
    ),
    Accepted(
        "What etcd does not take is the client's mistake as well: 413, where the real server has "
        "500 and etcd's words.",
        scenario="no_larger_than_etcd",
        step="POST .*gadgets.*bigger",
        codes=((500, 413),),
    ),
    Accepted(
        "The words of Go's decoders and internal types, of cel-go and of etcd are not imitated: "
        "only messages differ, and codes, reasons and fields are the same.",
        path=r"\.message$",
        real=r"json: cannot unmarshal|unknown conversion|in scheme|Invalid JSON Patch"
        r"|cannot convert int64|cannot restore map|StorageError|got &|error decoding YAML"
        r"|quantities must|invalid object type: /, Kind=$|unexpected end of JSON|415: Unsupp"
        r"|the object provided is unrecognized|provided watch is too old|parsing time"
        r'|\\x0[01]|continue key is not valid|"(APIGroup|Name|Component)":|error parsing regexp'
        r'|expected type .bool. but found|evaluating rule|Invalid value: {"ID":"","Schema"',
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
        step=r'"path": "(data/b|/spec/plain/-1)"',
        codes=((200, 422),),
    ),
    Accepted(
        "An unknown $patch directive and a null strategic patch are refused, not ignored.",
        scenario="strategic_patch_directives",
        step="explode|b'null'",
        codes=((200, 400),),
    ),
    Accepted(
        "Unknown HTTP methods end in the parser: 400 in plain text.",
        scenario="methods_that",
        step="^FOO",
        codes=((405, 400),),
    ),
    Accepted(
        "A method on the wrong level of a custom resource (PUT on a collection, POST on an "
        "object) is a 405, as for built-in kinds.",
        scenario="methods_that",
        codes=((400, 405), (409, 405)),
    ),
    Accepted(
        "A 406, and a 415 of a patch, have no details.",
        scenario="wrong_shape_or_type|accept_headers",
        path=r"\.details$",
        real=r"^\{\}$",
    ),
    Accepted(
        "What is wrong with a Node's taints is reported at their own path; a DaemonSet without "
        "a selector is refused because it needs one.",
        scenario="node_is_defaulted|daemon_set_is_defaulted",
        step="^POST",
        path=r"\.details\.causes|\.message",
        real="metadata.taints|template.metadata.labels",
    ),
    Accepted(
        "There are no warnings about odd certificates, unknown formats and faults that an object "
        "keeps.",
        path=r"headers\.warning",
        real="PEM data|unrecognized format|: Invalid value: |unknown field ..spec",
    ),
    Accepted(
        "A rule is not evaluated for what an update leaves as it is, so one that cannot be "
        "answered there is not reported.",
        scenario="rules_that_came_later",
        step="breaks.dryRun",
        codes=((422, 200),),
    ),
    Accepted(
        "What a delete demands is checked in one place, for Namespaces too; and their content goes "
        "at once, as the collector is part of the server.",
        scenario="terminating_namespace",
        step="preconditions|still",
        path=r"\.details\.kind|\.message|metadata\.(deletion|resourceVersion)",
    ),
    Accepted(
        "No manager owns a Role's empty list of rules, which is stored as null.",
        scenario="put_creates_what",
        path="managedFields$",
    ),
    Accepted(
        "Nulls, several documents and text that is not UTF-8 are refused as bodies, not read as "
        "something else.",
        scenario="malformed_bodies|odd_text",
        step=r"b'null'|--- \{\}|xff|ud800",
        codes=((422, 400), (201, 400)),
    ),
    Accepted(
        "So such text is not listed.",
        scenario="odd_text",
        step="^GET",
        path=r"\.items$",
        real="surrogate.*utf",
    ),
    Accepted(
        "Duplicates in YAML are not seen.",
        scenario="field_validation",
        step="yaml",
        path=r"\.message$|headers\.warning",
        real="already set in map",
    ),
    Accepted(
        "Escapes and timeouts in a query that Go cannot parse are not looked at.",
        scenario="odd_queries",
        step="%zz|timeout=x",
        codes=((200, 400), (400, 200)),
    ),
    Accepted(
        "An object of the wrong kind is defaulted before it is refused.",
        scenario="custom_object_envelope",
        step='"kind": "Other"',
        path=r"\.details\.causes|\.message",
        real="must be Gadget",
    ),
    Accepted(
        "The metadata of an embedded object is judged by its schema: 422, not 400.",
        scenario="custom_values",
        step="template-bad-meta",
        codes=((400, 422),),
    ),
    Accepted(
        "Reviews are not stored, so their fields have no manager.",
        scenario="reviews_are_what",
        path=r"metadata\.managedFields$",
    ),
    # -- CustomResourceDefinitions --------------------------------------------------------------
    Accepted(
        "Definitions with a conversion webhook are refused by name, and those with two versions of "
        "one name, whatever else is wrong with these.",
        scenario="invalid_definitions",
        path=r"\.details\.causes|\.message",
        real="webhookClientConfig|must have the storage version",
    ),
    # -- forms of answers -----------------------------------------------------------------------
    Accepted(
        "Answers in protobuf are not given, and 406 and 415 do not offer them.",
        path=r"\.message",
        real="application/vnd.kubernetes.protobuf$",
    ),
    Accepted(
        "application/* is taken for built-in kinds as it is for custom ones.",
        scenario="accept_headers",
        step=r"configmaps/one accepting application/\*$",
        codes=((406, 200),),
    ),
    Accepted(
        "The deprecated /watch/ paths are not served.",
        step="/watch/",
        codes=((200, 404),),
    ),
    Accepted(
        "A watch may begin as far back as the history reaches, also before its kind's definition; "
        "the real cache begins with that, and keeps some hundred events.",
        scenario="before_the_definition",
        step="^WATCH",
        real="too old resource version",
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
        codes=((422, 200),),
    ),
    Accepted(
        "Pods are not evicted: there is no disruption controller that allows it.",
        scenario="eviction_of_pods",
        step="/eviction",
        codes=((404, 501), (400, 501), (201, 501), (429, 501), (405, 501)),
    ),
    Accepted(
        "So a pod that would have been evicted is as it was, and discovery does not list that.",
        scenario="eviction_of_pods|discovery|served_group",
        step="^GET [^ ]*/pods/two$|pods$|^GET /api/v1$",
        path=r"metadata\.(deletion|generation|resourceVersion)|status\.conditions$"
        r"|subresources$|^\[1\]$",
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
