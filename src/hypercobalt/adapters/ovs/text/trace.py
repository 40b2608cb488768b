"""ofproto/trace.

Tables are indented by how they were called, their actions below them further; what follows a nested
table at the indent of the outer one belongs to the outer one again.

Source: Open vSwitch's ofproto/ofproto-dpif-trace.c and ofproto-dpif-xlate.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from hypercobalt.adapters.ovs.internals import BridgeOfDatapath
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.traced import Action, Pass, Trace, TracedStep

_BRIDGE: Final = re.compile(r'^( *)bridge\("(.*)"\)$')
_STEP: Final = re.compile(r"^( *)([0-9]{1,3})\. (.*)$")
_RULE: Final = re.compile(
    r"^(?:(?P<match>.*), )?priority (?P<priority>[0-9]{1,5})"
    r"(?:, cookie (?P<cookie>0x[0-9a-f]{1,16}))?$"
)
_RULER: Final = re.compile(r"^ *(?:-+|=+)$")
_RESUMED: Final = "recirc("
_THAWED: Final = ("thaw", "Resuming from table", "Restoring ")
"""Lines about a packet that comes back, before its first action or table."""
_HEADS: Final = ("Flow: ", "Final flow: ", "Megaflow: ", "Datapath actions: ")
_NOTE, _ERROR = "-> ", ">> "
_OUTPUT: Final = re.compile(r"^output:(\d{1,10})$")
_PORT: Final = re.compile(r"(?<![^,])\d{1,10}(?![^,])")


@dataclass(slots=True)
class _Open:
    """A table whose actions may still come."""

    bridge: str
    table: int
    rule: re.Match[str] | None
    indent: int | None = None  # of its actions, once one has come
    actions: list[tuple[str, list[str], list[str]]] = field(
        default_factory=list[tuple[str, list[str], list[str]]]
    )

    def closed(self) -> TracedStep:
        actions = tuple(Action(text, tuple(a), tuple(b)) for text, a, b in self.actions)
        if self.rule is None:
            return TracedStep(self.bridge, self.table, actions=actions)
        return TracedStep(
            self.bridge,
            self.table,
            self.rule["match"] or "",
            int(self.rule["priority"]),
            int(self.rule["cookie"] or "0", 16),
            actions,
        )


@dataclass(slots=True)
class _Pass:
    """A pass that is being read."""

    resumed: str = ""
    before: _Open | None = None  # the last table of the pass before
    heads: dict[str, str] = field(default_factory=dict[str, str])
    bridges: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    steps: list[_Open] = field(default_factory=list[_Open])
    stack: list[_Open] = field(default_factory=list[_Open])
    remarks: list[str] = field(default_factory=list[str])

    def take(self, line: str) -> None:
        """Read one line."""
        head = next((one for one in _HEADS if line.startswith(one)), None)
        if head is not None:
            self.heads[head] = line.removeprefix(head)
        elif not line.strip() or _RULER.match(line):
            pass
        elif _HEADS[3] in self.heads:
            self.remarks.append(line.strip())
        elif found := _BRIDGE.match(line):
            self.bridges.append((len(found[1]), found[2]))
        elif found := _STEP.match(line):
            self._step(found)
        else:
            self._action(line)

    def _step(self, found: re.Match[str]) -> None:
        indent = len(found[1]) + len(found[2]) - 2  # numbers of tables are two wide
        while self.stack and self.stack[-1].indent is not None and indent < self.stack[-1].indent:
            self.stack.pop()
        while len(self.bridges) > 1 and indent < self.bridges[-1][0]:
            self.bridges.pop()  # back from behind a patch or a tunnel
        bridge = self.bridges[-1][1] if self.bridges else ""
        # Without a rule: "No match.", or fragments that the switch drops.
        step = _Open(bridge, int(found[2]), _RULE.match(found[3]))
        self.steps.append(step)
        self.stack.append(step)

    def _action(self, line: str) -> None:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not self.steps:
            if self.before is None or text.startswith((*_THAWED, _NOTE, _ERROR)):
                return
            # Actions that were kept back when the packet left: they belong to where it was.
            self.steps.append(_Open(self.before.bridge, self.before.table, self.before.rule))
            self.stack.append(self.steps[-1])
        if text.startswith((_NOTE, _ERROR)):
            actions = self.stack[-1].actions if self.stack else self.steps[-1].actions
            if actions:
                _, notes, errors = actions[-1]
                (notes if text.startswith(_NOTE) else errors).append(text[len(_NOTE) :])
            return
        while len(self.stack) > 1:
            known = self.stack[-1].indent
            if known is None or indent >= known:
                break
            self.stack.pop()
        owner = self.stack[-1] if self.stack else self.steps[-1]
        owner.indent = indent if owner.indent is None else owner.indent
        owner.actions.append((text, [], []))

    def closed(self) -> Pass:
        flow, final, megaflow, actions = (self.heads.get(head, "") for head in _HEADS)
        steps = tuple(step.closed() for step in self.steps)
        return Pass(self.resumed, flow, steps, final, megaflow, actions, tuple(self.remarks))


def parse_trace(text: str) -> Trace:
    """Read the reply to `ofproto/trace`.

    Raises:
        SwitchError: MALFORMED, for a text without a flow and datapath actions in each pass.
    """
    passes = list(_passes(text))
    for one in passes:
        if missing := [head for head in (_HEADS[0], _HEADS[3]) if head not in one.heads]:
            raise SwitchError(
                ProducerFault.MALFORMED,
                f"ofproto/trace: no line {missing[0].strip()!r} in {text[:80]!r}",
            )
    return Trace(tuple(one.closed() for one in passes))


def named(trace: Trace, bridges: Iterable[BridgeOfDatapath]) -> Trace:
    """A trace with names of ports where it has their numbers, as Open vSwitch before 3.1 has it.

    Args:
        trace: of a switch that does not name ports.
        bridges: with the names of all.
    """
    known = tuple(bridges)
    ofports = {(one.name, port.ofport): port.name for one in known for port in one.ports}
    numbers = {str(port.number): port.name for one in known for port in one.ports}

    def action(bridge: str, one: Action) -> Action:
        found = _OUTPUT.match(one.text)
        name = ofports.get((bridge, int(found[1]))) if found else None
        return replace(one, text=f"output:{name}") if name else one

    def step(one: TracedStep) -> TracedStep:
        return replace(one, actions=tuple(action(one.bridge, each) for each in one.actions))

    return Trace(
        tuple(
            replace(
                one,
                steps=tuple(map(step, one.steps)),
                datapath_actions=_PORT.sub(
                    lambda found: numbers.get(found[0], found[0]), one.datapath_actions
                ),
            )
            for one in trace.passes
        )
    )


def _passes(text: str) -> Iterator[_Pass]:
    current = _Pass()
    for line in text.split("\n"):
        if line.startswith(_RESUMED):
            yield current
            current = _Pass(line, current.steps[-1] if current.steps else current.before)
        else:
            current.take(line)
    yield current
