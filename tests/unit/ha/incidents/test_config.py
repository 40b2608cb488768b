"""The configuration: valid as a whole, or not at all."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from hypercobalt.ha.incidents.config import KEY, HaConfig, InvalidConfigError, hash_of, parse
from hypercobalt.ha.incidents.signals import EventType


def test_an_empty_document_is_the_defaults() -> None:
    assert parse({}) == parse({KEY: ""}) == parse({KEY: "# nothing"}) == HaConfig()


def test_document_sets_its_keys_and_the_others_have_defaults() -> None:
    found = parse({KEY: "limits: {recoveriesPerHour: 1}\nevents: {reboot: {reported: false}}"})
    assert (found.limits.recoveries_per_hour, found.limits.recoveries_per_day) == (1, 5)
    assert not found.event(EventType.REBOOT).reported
    assert found.event(EventType.REBOOT).monitored
    assert found.event(EventType.WATCHDOG).reported


def test_durations_are_those_of_kubernetes() -> None:
    found = parse({KEY: "thresholds: {paused: 1h30m}"})
    assert found.thresholds.paused == timedelta(minutes=90)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        pytest.param("limits: {backof: [1s]}", "`backof`", id="unknown key"),
        pytest.param("events: {foo: {}}", "'foo'", id="unknown event type"),
        pytest.param("dryRun: 1", "$.dryRun", id="wrong type"),
        pytest.param("thresholds: {paused: 0s}", "$.thresholds.paused", id="no time"),
        pytest.param("thresholds: {paused: 5}", "10s or 1h30m", id="no unit"),
        pytest.param("thresholds: {paused: 8760h}", "at most 168h", id="too long"),
        pytest.param("limits: {backoff: []}", "$.limits.backoff", id="no backoff"),
        pytest.param("thresholds: {manyCrashes: {percent: 101}}", "<= 100", id="over 100 percent"),
        pytest.param("a: [", "line 2", id="no YAML"),
        pytest.param("thresholds: {paused: 2026-02-30}", "a value cannot be read", id="no day"),
        pytest.param("dryRun: !!bool perhaps", "a value cannot be read", id="no boolean"),
        pytest.param("dryRun: !!int ''", "a value cannot be read", id="no digits"),
        pytest.param("dryRun: !!timestamp x", "a value cannot be read", id="no timestamp"),
        pytest.param("[" * 5000, "nested more than 8 levels", id="nested without end"),
        pytest.param("#" * 65_537, "65537 characters, at most 65536", id="far too long"),
        pytest.param("limits: &l {}\nthresholds: *l", "aliases are not supported", id="alias"),
        pytest.param("[]", "Expected", id="a list"),
        pytest.param("limits: {recoveriesPerHour: 0}", ">= 1", id="none"),
        pytest.param("limits: {recoveriesPerDay: 33}", "<= 32", id="more than is remembered"),
        pytest.param(
            "thresholds: {crashes: {count: 33, within: 1h}}", "<= 32", id="or than counts"
        ),
    ],
)
def test_one_mistake_refuses_the_document_and_is_named(text: str, named: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse({KEY: text})
    assert named in str(caught.value)


def test_another_key_of_the_config_map_is_a_mistake() -> None:
    with pytest.raises(InvalidConfigError, match=r"unknown key 'config\.yml'"):
        parse({"config.yml": ""})


def test_the_hash_names_the_document() -> None:
    assert re.fullmatch("[0-9a-f]{8}", hash_of({KEY: "dryRun: true"}))
    assert hash_of({KEY: "dryRun: true"}) != hash_of({KEY: "dryRun: false"})


def merges(levels: int) -> str:
    """A few hundred bytes that would be nine to the power of the levels in memory."""
    text = "x0: &x0 {k: 1}\n"
    for level in range(1, levels):
        text += f"x{level}: &x{level}\n  <<: [{', '.join([f'*x{level - 1}'] * 9)}]\n"
    return text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(merges(40), id="a bomb of merges"),
        pytest.param(f"limits: {{coolDown: {['x'] * 9_000}}}", id="a long value"),
        pytest.param(f"? {'k' * 60_000}\n: 1", id="a long key"),
        pytest.param(f"limits: {{coolDown: {'9' * 60_000}}}", id="a long number"),
        pytest.param("events:\n" + "".join(f" k{n}: {{}}\n" for n in range(6_000)), id="many"),
    ],
)
def test_document_that_is_made_to_harm_is_refused_in_few_words(text: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse({KEY: text})
    assert len(str(caught.value)) < 600


def test_document_that_is_no_text_is_refused_and_not_taken_for_an_empty_one() -> None:
    with pytest.raises(InvalidConfigError, match=r"binaryData has 'config.yaml'.*UTF-8"):
        parse({}, {KEY})
