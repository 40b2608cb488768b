"""A host's way through OpenStack: into it (onboarding), through maintenance, and out of it.

One pass for a Hypervisor (`reconciler`) walks through the steps, each a module with a pure
`decide`: `registration`, `onboarding` (with `checks` and `smoke_test`), `traits`, `aggregates`,
`ha_enabled`, `service`, `maintenance_eviction`, `offboarding`. A step sees what the steps before it
have done, so a pass goes as far as it can, and writes the status once.
"""
