"""The page that draws which state of a kind may follow which (`docs/reference/states.md`)."""

from __future__ import annotations

from typing import Final

from hypercobalt.api.eviction import EVICTION_REASONS
from hypercobalt.api.hypervisor_conditions import ONBOARDING_STAGES
from hypercobalt.api.migration import MIGRATION_TYPES

_DRAWN: Final = {
    "Eviction": (EVICTION_REASONS, "api/eviction.py", "operator/eviction/recording/status.py"),
    "Onboarding": (
        ONBOARDING_STAGES,
        "api/hypervisor_conditions.py",
        "operator/lifecycle/onboarding_steps.py",
    ),
    "Migration": (MIGRATION_TYPES, "api/migration.py", "node_agent/migrations/rules.py"),
}


def reference() -> str:
    """Return the page."""
    parts = [
        "# States\n\nWhich state may follow which. Drawn by `scripts/generate` from the tables "
        "that the rules are held to;\nto stay in a state is always allowed.\n"
    ]
    for title, (table, home, used) in _DRAWN.items():
        where = f"{table.of[0].upper()}{table.of[1:]}: table in `{home}`, held to in `{used}`."
        parts.append(f"## {title}\n\n{where}\n\n```mermaid\n{table.mermaid()}\n```\n")
    return "\n".join(parts)
