"""What people may use of this agent, with the rights that each needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from hypercobalt.adapters.ovs.port import ProducerFault, Switch, SwitchError
from hypercobalt.agent.diagnostics.use import Use, UseRequest
from hypercobalt.ovs_agent.diagnostics import uses as diagnostics
from hypercobalt.ovs_agent.facts import SwitchFacts
from hypercobalt.ovs_agent.judging import Judge
from hypercobalt.ovs_agent.observing import SwitchObserver
from hypercobalt.ovs_agent.rules.bonds import assess_bonds
from hypercobalt.ovs_agent.rules.bridges import assess_bridges
from hypercobalt.ovs_agent.rules.issues import Tracked, issues_of
from hypercobalt.runtime.routes import Answer

JSON = "application/json"


def uses(switch: Switch, observer: SwitchObserver, judge: Judge) -> Sequence[Use]:
    """Everything that there is."""

    def issues() -> Sequence[Tracked]:
        return issues_of(judge.latest.ledger) if judge.latest else ()

    return (
        Use("bridges", "diagnose", partial(_bridges, observer)),
        Use("bonds", "diagnose", partial(_bonds, observer)),
        *diagnostics.uses(switch, lambda: observer.facts.value, issues),
    )


async def _bridges(observer: SwitchObserver, _: UseRequest) -> Answer:
    """The bridges as they are now, in the form of `status.bridges`."""
    return Answer(200, msgspec.json.encode(assess_bridges(_read(observer)).value), JSON)


async def _bonds(observer: SwitchObserver, _: UseRequest) -> Answer:
    """The bonds as they are now, in the form of `status.interfaces.bonds`."""
    return Answer(200, msgspec.json.encode(assess_bonds(_read(observer)).value), JSON)


def _read(observer: SwitchObserver) -> SwitchFacts:
    facts = observer.facts.value
    if facts.database.value is None:
        raise SwitchError(ProducerFault.TIMEOUT, "the switch is not read yet; try again")
    return facts
