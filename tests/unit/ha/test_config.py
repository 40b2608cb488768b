"""The configuration: valid as a whole, or not at all."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hypercobalt.ha.config import KEY, HaConfig, InvalidConfigError, hash_of, parse
from hypercobalt.ha.signals import EventType


def test_an_empty_document_is_the_defaults() -> None:
    assert parse({}) == parse({KEY: ""}) == parse({KEY: "# nothing"}) == HaConfig()


def test_what_is_given_counts_and_the_rest_has_its_default() -> None:
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
        pytest.param("a: [", "line 1", id="no YAML"),
        pytest.param("thresholds: {paused: 2026-02-30}", "a value cannot be read", id="no day"),
        pytest.param("dryRun: !!bool perhaps", "a value cannot be read", id="no boolean"),
        pytest.param("dryRun: !!int ''", "a value cannot be read", id="no digits"),
        pytest.param("dryRun: !!timestamp x", "a value cannot be read", id="no timestamp"),
        pytest.param("[" * 5000, "a value cannot be read", id="nested without end"),
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
    assert hash_of({KEY: "dryRun: true"}) != hash_of({KEY: "dryRun: false"})
