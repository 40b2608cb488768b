"""Protobuf bodies come out as the JSON a Go client would send, and bad ones as a 400."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.apiserver.errors import JSON, StatusError
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.requests.bodies import MAX_DEPTH as MAX_JSON_DEPTH
from hypercobalt.apiserver.requests.bodies import decode as decode_body
from hypercobalt.apiserver.requests.request import Call, Request, User, delete_options
from hypercobalt.apiserver.wire.protobuf import MAX_DEPTH, MEDIA_TYPE, decode, library

TOKEN_REQUEST = "authentication.k8s.io/v1/TokenRequest"
SAMPLES = Path(__file__).parent / "samples" / "protobuf.jsonl.gz"
OPENAPI = Path(__file__).parents[3] / "src/hypercobalt/apiserver/kinds/openapi/builtin.json.gz"
APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
# What kubectl 1.37 sent, with what `--dry-run=client -o json` shows for the same command.
NAMESPACE = "azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhkKEQoBeBIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA=="
DEPLOYMENT = (
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50ErIBChsKAWQSABoAIgAqADIAOABCAFoICgNhcHASAWQShAEIABIKCggK"
    "A2FwcBIBZBpsChoKABIAGgAiACoAMgA4AEIAWggKA2FwcBIBZBJOEjAKBW5naW54EgduZ2lueDoxKgAyCgoAEAAYUCIA"
    "KgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4"
    "ABoAIgA="
)
BUDGET = (
    "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQSNgoRCgFwEgAaACIAKgAyADgAQgASFQoJCAEQABoD"
    "NTAlEggKBgoBYRIBYhoKCAAYACAAKAAwABoAIgA="
)
# Messages with a JSON form of their own, not that of their fields.
SPECIAL = {
    *(f"{META}{name}" for name in ("Time", "MicroTime", "FieldsV1")),
    *(f"{APIEXTENSIONS}{name}" for name in ("JSON", "JSONSchemaPropsOrArray")),
    *(f"{APIEXTENSIONS}JSONSchemaPropsOr{name}" for name in ("Bool", "StringArray")),
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}


# -- an encoder, independent of the code under test --------------------------------------------


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def text(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(of: int, value: int) -> bytes:
    return varint(of << 3) + varint(value)


def body(kind: str, raw: bytes, version: str = "v1", tail: bytes = b"") -> bytes:
    return b"k8s\0" + text(1, text(1, version) + text(2, kind)) + text(2, raw) + tail


def refusal(data: bytes) -> str:
    with pytest.raises(StatusError) as caught:
        decode(data)
    assert caught.value.code == 400
    return caught.value.message


def at(value: JSON, *path: str) -> JSON:
    for name in path:
        assert isinstance(value, dict)
        value = value[name]
    return value


# -- what real encoders send -------------------------------------------------------------------


def test_namespace_of_kubectl_is_decoded() -> None:
    decoded = decode(base64.b64decode(NAMESPACE))

    assert decoded == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "x"},
        "spec": {},
        "status": {},
    }


def test_deployment_of_kubectl_keeps_replicas_of_zero() -> None:
    decoded = decode(base64.b64decode(DEPLOYMENT))

    container = {
        "name": "nginx",
        "image": "nginx:1",
        "ports": [{"containerPort": 80}],
        "resources": {},
    }
    assert decoded == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"app": "d"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "d"}},
            "strategy": {},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}},
        },
        "status": {},
    }


def test_numbers_without_omitempty_stay_when_zero() -> None:
    decoded = decode(base64.b64decode(BUDGET))

    assert at(decoded, "spec", "minAvailable") == "50%"
    assert decoded["status"] == {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    }


def without_nulls(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {name: without_nulls(v) for name, v in value.items() if v is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def test_random_objects_of_every_kind_come_out_as_kubernetes_writes_them_in_json() -> None:
    kinds = set()
    for line in gzip.decompress(SAMPLES.read_bytes()).splitlines():
        sample = json.loads(line)
        decoded = decode(base64.b64decode(sample["protobuf"]))
        # A Go client writes null for lists without omitempty; here they are absent.
        assert without_nulls(decoded) == without_nulls(sample["json"]), sample["kind"]
        kinds.add(sample["kind"])
    assert kinds == {*library().kinds, "v1/DeleteOptions"}


# -- the tables --------------------------------------------------------------------------------


def json_names(message: str) -> set[str]:
    found: set[str] = set()
    for field in library().messages[message].values():
        found |= json_names(field.type) if field.form == "inline" else {field.name}
    return found


def test_every_message_has_the_properties_of_its_openapi_schema() -> None:
    schemas = json.loads(gzip.decompress(OPENAPI.read_bytes()))["schemas"]
    for message in sorted(library().messages.keys() & schemas.keys() - SPECIAL):
        properties = set(schemas[message].get("properties", ()))
        extra = properties - json_names(message)
        assert json_names(message) <= properties, message
        assert extra <= {"apiVersion", "kind"}, message  # these stand in runtime.Unknown


def test_only_lists_inline_structs_and_the_envelope_have_no_openapi_schema() -> None:
    schemas = json.loads(gzip.decompress(OPENAPI.read_bytes()))["schemas"]
    names = {name.removeprefix("io.k8s.") for name in library().messages.keys() - schemas.keys()}

    assert names == {
        *(f"api.admissionregistration.v1.{n}" for n in ("Rule", "RuleWithOperations")),
        *("api.authentication.v1.ExtraValue", "api.authorization.v1.ExtraValue"),
        *(f"api.core.v1.{n}" for n in ("EphemeralContainerCommon", "ProbeHandler", "VolumeSource")),
        *("apimachinery.pkg.runtime.TypeMeta", "apimachinery.pkg.runtime.Unknown"),
    }


def test_every_type_is_known() -> None:
    scalars = {"string", "bytes", "bool", "int32", "int64", "double", "json"}
    forms = {"", "omitempty", "omitzero", "inline", "repeated", "map"}
    for message, fields in library().messages.items():
        for field in fields.values():
            assert field.type in scalars or field.type in library().messages, message
            assert field.form in forms, message


# -- single forms ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        pytest.param(number(1, 1700000000) + number(2, 5), "2023-11-14T22:13:20Z", id="time"),
        pytest.param(number(1, 0) + number(2, 0), "1970-01-01T00:00:00Z", id="epoch"),
        pytest.param(number(1, -62135596800), None, id="zero"),
        pytest.param(b"", None, id="empty"),
    ],
)
def test_times_have_whole_seconds(stamp: bytes, shown: str | None) -> None:
    meta = decode(body("Namespace", text(1, text(9, stamp))))["metadata"]

    assert meta == ({"deletionTimestamp": shown} if shown else {})


def test_micro_times_have_microseconds() -> None:
    lease = text(2, text(3, number(1, 1) + number(2, 1999)))

    decoded = decode(body("Lease", lease, "coordination.k8s.io/v1"))

    assert decoded["spec"] == {"acquireTime": "1970-01-01T00:00:01.000001Z"}


def test_negative_numbers_are_decoded() -> None:
    pod = text(2, number(4, -5) + number(25, -7))

    decoded = decode(body("Pod", pod))

    assert decoded["spec"] == {"terminationGracePeriodSeconds": -5, "priority": -7}


@pytest.mark.parametrize("groups", [number(4, 1) + number(4, 300), text(4, b"\x01\xac\x02")])
def test_repeated_numbers_are_decoded_packed_or_not(groups: bytes) -> None:
    decoded = decode(body("Pod", text(2, text(14, groups))))

    assert at(decoded, "spec", "securityContext") == {"supplementalGroups": [1, 300]}


def test_bytes_become_base64_and_empty_values_of_a_map_stay() -> None:
    secret = text(2, text(1, "k") + text(2, b"\xff")) + text(2, text(1, "e"))

    assert decode(body("Secret", secret))["data"] == {"k": "/w==", "e": ""}


def test_fields_that_are_not_known_are_skipped() -> None:
    strange = number(99, 1) + text(98, b"x") + varint(97 << 3 | 1) + bytes(8)
    strange += varint(96 << 3 | 5) + bytes(4)

    assert decode(body("ConfigMap", strange)) == {"apiVersion": "v1", "kind": "ConfigMap"}


def test_the_last_of_a_repeated_single_field_counts() -> None:
    meta = text(1, text(1, "a") + text(1, "b")) + text(1, text(1, "c") + text(1, ""))

    assert decode(body("ConfigMap", meta))["metadata"] == {}


def test_options_of_a_delete_come_in_any_group() -> None:
    raw = number(1, 0) + text(2, text(1, "u")) + text(4, "Orphan")
    sent = body("DeleteOptions", raw, "policy/v1")
    request = Request("DELETE", "/", {}, {}, User("u"), sent)
    pods = Registry.load().find("", "v1", "pods")
    assert pods is not None

    options = delete_options(Call(request, pods, body=decode_body(MEDIA_TYPE, sent)))

    assert options.gracePeriodSeconds == 0
    assert options.propagationPolicy == "Orphan"
    assert options.preconditions is not None
    assert options.preconditions.uid == "u"


# -- hostile bodies ----------------------------------------------------------------------------


def schema_of(levels: int) -> bytes:
    schema = text(5, "object")
    for _ in range(levels):
        schema = text(28, schema)  # not
    return schema


def crd(schema: bytes) -> bytes:
    version = text(1, "v1") + text(4, text(1, schema))
    raw = text(2, text(7, version))
    return body("CustomResourceDefinition", raw, "apiextensions.k8s.io/v1")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "does not start with", id="nothing"),
        pytest.param(b"{}", "does not start with", id="json"),
        pytest.param(b"k8s\0", 'no kind "" is registered', id="no-type"),
        pytest.param(body("Nope", b""), 'no kind "Nope"', id="unknown-kind"),
        pytest.param(body("Pod", b"", "v2"), 'for version "v2"', id="unknown-version"),
        pytest.param(body("Pod", b"", tail=text(3, "gzip")), "another way", id="encoding"),
        pytest.param(body("Pod", b"", tail=text(4, "a/b")), "another way", id="content-type"),
        pytest.param(body("Pod", b"\x80"), "unexpected EOF", id="cut-varint"),
        pytest.param(body("Pod", b"\xff" * 11), "overflow", id="long-varint"),
        pytest.param(body("Pod", b"\x0a\x05a"), "unexpected EOF", id="length-beyond-the-end"),
        pytest.param(body("Pod", b"\x0a" + b"\xff" * 9 + b"\x01"), "EOF", id="huge-length"),
        pytest.param(body("Pod", b"\x79\x00"), "unexpected EOF", id="cut-fixed"),
        pytest.param(body("Pod", b"\x0b\x0c"), "illegal wire type 3", id="group"),
        pytest.param(body("Pod", b"\x00\x00"), "illegal field number", id="field-zero"),
        pytest.param(body("Pod", number(1, 1)), "wrong wire type", id="number-for-message"),
        pytest.param(body("Pod", text(2, text(4, "x"))), "wrong wire type", id="text-for-number"),
        pytest.param(body("ConfigMap", number(2, 1)), "wrong wire type", id="number-for-map"),
        pytest.param(body("ConfigMap", text(1, text(1, b"\xff"))), "not UTF-8", id="utf-8"),
        pytest.param(
            body("Pod", text(1, text(9, number(1, 2**62)))), "out of range", id="far-future"
        ),
        pytest.param(
            body("Service", text(2, text(1, text(4, number(1, 2))))), "IntOrString", id="type"
        ),
        pytest.param(
            body("Pod", text(1, text(17, text(7, text(1, "{"))))), "JSON in it", id="fields"
        ),
        pytest.param(
            body("Pod", text(1, text(17, text(7, text(1, "[" * 100_000))))), "JSON", id="deep-json"
        ),
        pytest.param(crd(varint(9 << 3 | 1) + struct.pack("<d", float("nan"))), "finite", id="nan"),
        pytest.param(crd(schema_of(MAX_DEPTH)), "nests deeper", id="deep"),
        pytest.param(crd(schema_of(5000)), "nests deeper", id="very-deep"),
    ],
)
def test_malformed_bodies_are_refused(data: bytes, why: str) -> None:
    assert why in refusal(data)


def test_a_schema_may_nest_as_deep_as_any_real_one() -> None:
    assert decode(crd(schema_of(MAX_DEPTH - 10)))["kind"] == "CustomResourceDefinition"


def test_json_within_counts_towards_the_depth_of_the_body() -> None:
    deep = "[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1)
    data = body("Pod", text(1, text(17, text(7, text(1, deep)))))

    with pytest.raises(StatusError, match="nests deeper"):
        decode_body(MEDIA_TYPE, data)


def refused_or_json(data: bytes) -> None:
    code = 400
    try:
        json.dumps(decode(data), allow_nan=False)
    except StatusError as error:
        code = error.code
    assert code == 400


@given(st.sampled_from(sorted(library().kinds)), st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(kind: str, data: bytes) -> None:
    version, _, name = kind.rpartition("/")
    refused_or_json(data)
    refused_or_json(b"k8s\0" + data)
    refused_or_json(body(name, data, version))


@given(st.data())
def test_damaged_bodies_are_read_or_refused(data: st.DataObject) -> None:
    real = base64.b64decode(data.draw(st.sampled_from([NAMESPACE, DEPLOYMENT, BUDGET])))
    damaged = bytearray(real[: data.draw(st.integers(4, len(real)))])
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    refused_or_json(bytes(damaged))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.text(), st.binary())
def test_scalars_keep_their_value(wide: int, narrow: int, words: str, data: bytes) -> None:
    pod = decode(body("Pod", text(2, number(5, wide) + number(25, narrow) + text(29, words))))
    secret = decode(body("Secret", text(2, text(1, words) + text(2, data))))

    spec = {"activeDeadlineSeconds": wide, "priority": narrow, "runtimeClassName": words}
    assert pod["spec"] == spec
    assert secret["data"] == {words: base64.b64encode(data).decode()}
