# Every chore has one target; CI runs the same ones. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
BIN := .venv/bin
RING := scripts/ring
BESIDE := $(BIN)/python -m tests.side_by_side
# They wait more than they compute, but for the last. The longest begin first: none is left alone.
RINGS := test-openstack test-lab drills integration conformance-operator conformance pythons
AND_REST := $(if $(REST), and not first)

.PHONY: help setup hooks lab test test-all check lint types contract unit pythons first rest integration prepare test-lab drills timed test-openstack test-whole conformance conformance-operator mutants bench generate lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv from the locked requirements
	@scripts/setup

hooks: ## have git check lint, format, spelling and the title of each commit
	git config core.hooksPath scripts/hooks

lab: setup ## set up, then boot three real hosts with the API that shows them (YES=1: ask nothing)
	@$(BIN)/cobalt lab up

test: setup unit first ## what to run first: unit tests, contracts, kubectl, real hosts for some minutes
	@echo 'make test has played all unit tests, and a part of the other rings; `make test-all` plays all of them.'

test-all: setup ## every check and test that .ci/run plays
	@$(BESIDE) humble early
	@REST=1 $(BESIDE) first $(RINGS)

# What has no deadline gives way to what has one of a few seconds, also where the kernel shares the
# CPUs out between sessions first (sched(7), autogroup).
NICE = @echo $(1) 2>/dev/null >/proc/self/autogroup || true
.PHONY: humble early
humble:
	$(call NICE,10)
	@nice -n 10 $(MAKE) --no-print-directory check

early:
	$(call NICE,10)
	@nice -n 10 $(MAKE) --no-print-directory prepare
	$(call NICE,0)
	@$(MAKE) --no-print-directory timed

check: setup lint types contract unit ## what to run before every commit

lint: setup ## ruff, spelling, unused dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/deptry src

types: setup ## mypy over everything, pyright over src
	@# side by side: each has one thread
	$(BIN)/mypy & mypy=$$!; $(BIN)/pyright --pythonpath $(BIN)/python; code=$$?; wait $$mypy && exit $$code

contract: setup ## which room may import which
	$(BIN)/lint-imports

prepare: setup ## install and build what the rings below need: packages, kube-apiserver, OpenStack
	@$(BIN)/python -m tests.prepare

unit: setup ## run the tests of rules, parsers and modules in memory
	$(RING) unit tests/unit -n 2

pythons: setup ## run them on the oldest and the newest Python found here as well
	scripts/unit-pythons

integration: setup ## run the tests with real sockets, SQLite and kubectl; OpenStack simulated
	@# what is any_api runs on the real API server as well, by conformance-operator
	$(RING) integration tests/integration tests/openstack -n 2 --dist worksteal $(if $(REST),-m 'not first and not any_api')

first: setup ## run the part of the rings below that tests/first.py lists
	$(RING) first tests/integration tests/openstack tests/lab -n 2 --dist worksteal -m first

rest: setup ## run what `make test` leaves out, side by side
	REST=1 $(BESIDE) $(RINGS)

test-lab: setup ## run the tests on real hosts: systemd, libvirtd, QEMU, Open vSwitch
	$(RING) lab tests/lab -n 2 --dist worksteal -m 'not timed and not drill$(AND_REST)'

drills: setup ## break real hosts, and check that no instance is lost and none runs twice
	$(RING) drills tests/lab -n 2 --dist worksteal -m 'drill$(AND_REST)'

timed: setup ## run the tests on real hosts that have deadlines of a few seconds
	$(RING) timed tests/lab -m timed

test-openstack: setup ## run the tests on a real OpenStack, at the end with our agents on its hosts
	$(RING) openstack tests/openstack --real

test-whole: setup ## run the end of test-openstack alone
	$(RING) whole tests/openstack/whole --real

conformance: setup ## compare the embedded API server with a real kube-apiserver
	scripts/conformance

conformance-operator: setup ## run the operator's tests on a real kube-apiserver, with its chart's rights
	scripts/conformance operator

mutants: setup ## change the rules one place at a time: do their unit tests notice?
	$(BIN)/python -m tests.mutants

bench: ## measure, beside the real kube-apiserver and other clients
	scripts/setup bench
	scripts/bench

generate: setup ## write the files that are generated from the types
	$(BIN)/python scripts/generate

lock: setup ## renew the locked requirements
	scripts/lock --upgrade

clean: ## remove what the targets made here (not the cache of built servers)
	rm -rf .venv .venv-* .lab .build .mypy_cache .ruff_cache .pytest_cache .hypothesis
