"""Annotations that switch high availability of a host off, as people write them."""

from __future__ import annotations

import pytest

from hypercobalt.api.ha_switch import HA_ENABLED, PAUSE, is_paused, recovery_off, switched_off
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.truth import truth

NO = ("false", "False", " no ", "off", "0", "n", "F")
YES = ("true", "TRUE", "yes", "on", "1", "y", "t")
WORDS = ("", "fan is replaced", "nobody at work", "falsehood", "00")


def host(**annotations: str) -> Hypervisor:
    notes = {f"kvm.cloud.sap/{name.replace('_', '-')}": text for name, text in annotations.items()}
    spec = HypervisorSpec(lifecycleEnabled=True, highAvailability=True)
    return Hypervisor(metadata=ObjectMeta(name="kvm-a", annotations=notes), spec=spec)


@pytest.mark.parametrize("text", NO)
def test_host_that_is_no_longer_paused_is_recovered(text: str) -> None:
    assert not is_paused(host(pause_recovery=text))
    assert recovery_off(host(pause_recovery=text)) == ""


@pytest.mark.parametrize("text", [*YES, *WORDS])
def test_value_of_the_pause_is_its_reason(text: str) -> None:
    assert is_paused(host(pause_recovery=text))
    why = f"recovery is paused by the annotation {PAUSE}: {text or 'no reason given'}"
    assert recovery_off(host(pause_recovery=text)) == why


@pytest.mark.parametrize("text", [*NO, *YES, *WORDS])
def test_only_a_no_switches_high_availability_off(text: str) -> None:
    off = f"the annotation {HA_ENABLED} is false"
    assert switched_off(host(ha_enabled=text)) == (off if text in NO else "")


@pytest.mark.parametrize(
    ("texts", "expected"), [(NO, False), (YES, True), (WORDS, None)], ids=["no", "yes", "words"]
)
def test_truth_is_read_in_any_case_and_only_as_a_whole_word(
    texts: tuple[str, ...], expected: bool | None
) -> None:
    assert {truth(text) for text in texts} == {expected}
