"""Fields of a Hypervisor that follow its Node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.operator.samples import condition, hypervisor, node, reports

from hypercobalt.api.codec import decode, encode
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.operator.nodes.from_node import RECORD, first, follow, frozen
from hypercobalt.operator.shared.node_facts import (
    AGGREGATES_ANNOTATION,
    COPIED_LABELS,
    HOSTNAME_LABEL,
    LIFECYCLE_LABEL,
    TRAITS_ANNOTATION,
    ZONE_LABEL,
    internal_ip,
)

GROUP = "worker.garden.sapcloud.io/group"


def test_first_hypervisor_is_out_of_the_lifecycle_and_owned_by_its_node() -> None:
    made = first(node(), COPIED_LABELS)
    assert made.metadata.labels == {HOSTNAME_LABEL: "kvm-a", ZONE_LABEL: "zone-a"}
    assert made.metadata.annotations == {RECORD: f"{HOSTNAME_LABEL},{ZONE_LABEL}"}
    (owner,) = made.metadata.ownerReferences
    assert (owner.kind, owner.uid, owner.controller) == ("Node", "node-uid", None)
    spec = made.spec
    assert (spec.lifecycleEnabled, spec.skipTests, spec.maintenance) == (False, False, None)
    assert (spec.aggregates, spec.customTraits) == ((), ())
    assert (spec.highAvailability, spec.installCertificate) == (True, True)
    assert (spec.evacuateOnReboot, spec.reboot) == (False, False)


def test_hypervisor_of_a_terminating_node_starts_in_termination() -> None:
    assert first(node(deleted=True), ()).spec.maintenance == "termination"
    assert first(node(reports("Terminating")), ()).spec.maintenance == "termination"
    assert first(node(reports("Terminating", "False")), ()).spec.maintenance is None


def test_maintenance_of_a_known_hypervisor_is_left_to_others() -> None:
    known = first(node(), COPIED_LABELS)
    assert follow(known, node(deleted=True), COPIED_LABELS) == known


def test_hypervisor_that_follows_its_node_is_left_as_it_is() -> None:
    of = node(labels={LIFECYCLE_LABEL: "true"}, annotations={AGGREGATES_ANNOTATION: "a"})
    made = first(of, COPIED_LABELS)
    assert follow(made, of, COPIED_LABELS) == made


@pytest.mark.parametrize(
    ("value", "skips"), [("true", False), ("", False), ("false", False), ("skip-tests", True)]
)
def test_lifecycle_is_on_with_the_label_whatever_its_value(value: str, skips: bool) -> None:
    spec = first(node(labels={LIFECYCLE_LABEL: value}), ()).spec
    assert (spec.lifecycleEnabled, spec.skipTests) == (True, skips)


@pytest.mark.parametrize(
    ("annotation", "wanted"),
    [
        pytest.param(None, ("by-hand",), id="no annotation, left to people"),
        pytest.param("", ("zone-a",), id="an empty annotation"),
        pytest.param(" one , ,two,", ("one", "two", "zone-a"), id="blanks do not count"),
        pytest.param("zone-a,one", ("zone-a", "one"), id="zone named already is not added twice"),
        pytest.param("one,one", ("one", "zone-a"), id="named twice is there once"),
    ],
)
def test_aggregates_follow_the_annotation_and_the_zone(
    annotation: str | None, wanted: tuple[str, ...]
) -> None:
    given = {} if annotation is None else {AGGREGATES_ANNOTATION: annotation}
    known = hypervisor(spec=HypervisorSpec(aggregates=("by-hand",)))
    assert follow(known, node(annotations=given), ()).spec.aggregates == wanted


def test_aggregates_of_a_node_without_a_zone_have_no_empty_name() -> None:
    of = node(annotations={AGGREGATES_ANNOTATION: ""}, labels={ZONE_LABEL: ""})
    assert follow(hypervisor(), of, ()).spec.aggregates == ()


def test_traits_follow_the_annotation_without_additions() -> None:
    of = node(annotations={TRAITS_ANNOTATION: "CUSTOM_A, CUSTOM_B"})
    assert follow(hypervisor(), of, ()).spec.customTraits == ("CUSTOM_A", "CUSTOM_B")


def test_label_that_the_node_lost_is_withdrawn_only_if_it_came_from_it() -> None:
    with_group = first(node(labels={GROUP: "blue"}), COPIED_LABELS)
    assert GROUP not in follow(with_group, node(), COPIED_LABELS).metadata.labels
    by_hand = hypervisor(labels={GROUP: "blue"})
    assert follow(by_hand, node(), COPIED_LABELS).metadata.labels[GROUP] == "blue"


def test_lifecycle_that_the_node_lost_is_withdrawn_only_if_it_came_from_it() -> None:
    on = first(node(labels={LIFECYCLE_LABEL: "skip-tests"}), ())
    spec = follow(on, node(), ()).spec
    assert (spec.lifecycleEnabled, spec.skipTests) == (False, False)
    by_hand = hypervisor(spec=HypervisorSpec(lifecycleEnabled=True))
    assert follow(by_hand, node(), ()).spec.lifecycleEnabled


def test_frozen_spec_stays_and_labels_follow() -> None:
    made = first(node(labels={LIFECYCLE_LABEL: "true"}), COPIED_LABELS)
    frozen = replace(made, spec=replace(made.spec, maintenance="termination"))
    changed = node(labels={GROUP: "blue"}, annotations={AGGREGATES_ANNOTATION: "other"})
    found = follow(frozen, changed, COPIED_LABELS)
    assert found.spec == frozen.spec
    assert found.metadata.labels[GROUP] == "blue"
    # Once it thaws, it is still known that the lifecycle came from the Node.
    thawed = replace(found, spec=replace(found.spec, maintenance="ha"))
    assert not follow(thawed, changed, COPIED_LABELS).spec.lifecycleEnabled


@pytest.mark.parametrize(
    ("addresses", "stored", "shown"),
    [
        ((), None, None),
        (("192.0.2.1",), None, "192.0.2.1"),
        (("192.0.2.1", "2001:db8::1"), None, "192.0.2.1"),
        pytest.param(
            ("192.0.2.1", "2001:db8::1"), "2001:db8::1", "2001:db8::1", id="dual stack stays"
        ),
        (("192.0.2.2",), "192.0.2.1", "192.0.2.2"),
        ((), "192.0.2.1", None),
        pytest.param(
            ("192.0.2.1/system?no_verify=1&x=", "192.0.2.2"), None, "192.0.2.2", id="no address"
        ),
        pytest.param(("192.0.2.1?x",), "192.0.2.1?x", None, id="no address, stored before"),
        pytest.param(("127.0.0.1",), None, None, id="loopback"),
    ],
)
def test_internal_ip_follows_the_addresses_of_the_node(
    addresses: tuple[str, ...], stored: str | None, shown: str | None
) -> None:
    assert internal_ip(node(addresses=addresses), stored) == shown


@given(st.text())
def test_any_annotation_gives_names_that_are_some_each_once(text: str) -> None:
    made = first(node(annotations={AGGREGATES_ANNOTATION: text, TRAITS_ANNOTATION: text}), ())
    for names in (made.spec.aggregates, made.spec.customTraits):
        assert all(name and name == name.strip() and "," not in name for name in names)
        assert len(names) == len(set(names))
    assert decode(encode(made), Hypervisor).spec == made.spec


@pytest.mark.parametrize(
    ("maintenance", "annotations", "record", "fields"),
    [
        pytest.param("manual", {TRAITS_ANNOTATION: "CUSTOM_A"}, "", (), id="not frozen"),
        pytest.param("termination", {}, "", (), id="nothing is wanted"),
        pytest.param(
            "termination", {TRAITS_ANNOTATION: "CUSTOM_A"}, "", ("customTraits",), id="a trait"
        ),
        pytest.param(
            "termination", {}, LIFECYCLE_LABEL, ("lifecycleEnabled",), id="no lifecycle any more"
        ),
    ],
)
def test_frozen_spec_names_the_fields_that_it_does_not_take_over(
    maintenance: str, annotations: dict[str, str], record: str, fields: tuple[str, ...]
) -> None:
    spec = HypervisorSpec(lifecycleEnabled=True, skipTests=False, maintenance=maintenance)
    given_ = hypervisor(spec=spec, annotations={RECORD: record})
    assert frozen(given_, node(annotations=annotations)) == fields


@pytest.mark.parametrize(
    ("registered", "stored", "wanted", "expected"),
    [
        pytest.param(True, "kvm-a", "kvm-c", "kvm-a", id="takes no other host's name"),
        pytest.param(True, "kvm-a", "kvm-a.example.com", "kvm-a.example.com", id="its own"),
        pytest.param(True, "nova-7", "kvm-a", "kvm-a", id="back to its own"),
        pytest.param(True, "nova-7", "nova-8", "nova-7", id="stays as it was registered"),
        pytest.param(False, "kvm-a", "kvm-c", "kvm-c", id="is not registered"),
        pytest.param(None, "kvm-a", "kvm-c", "kvm-c", id="is not known by that name any more"),
    ],
)
def test_registered_host_keeps_its_name(
    registered: bool | None, stored: str, wanted: str, expected: str
) -> None:
    shown = condition("Registered", "Unknown" if registered else "False")
    made = hypervisor(shown, labels={HOSTNAME_LABEL: stored})
    status = replace(made.status, serviceId=None if registered is False else "service")
    after = follow(
        replace(made, status=status), node(labels={HOSTNAME_LABEL: wanted}), COPIED_LABELS
    )
    assert after.metadata.labels[HOSTNAME_LABEL] == expected
