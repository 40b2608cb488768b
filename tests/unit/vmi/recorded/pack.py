"""Pack recorded verdicts as tests read them: `python -m tests.unit.vmi.recorded.pack FOLDER`.

The folder has `verdicts-create.jsonl.gz` and `verdicts-update.jsonl.gz`; a line of them is one
request, with the answer of KubeVirt's own admission. Here, `old` and `object` are merge patches of
what is sent, and what says nothing is left out.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final, cast

from hypercobalt.vmi.review import Json, JsonObject

SOURCES: Final = ("verdicts-create.jsonl.gz", "verdicts-update.jsonl.gz")

_KEPT: Final = ("id", "op", "group", "about", "manifest", "allowed", "by", "stricter", "cut")


def packed(case: JsonObject) -> JsonObject:
    """A recorded case, smaller."""
    made: JsonObject = {name: case[name] for name in _KEPT if name in case}
    made["causes"] = [field for field, _ in cast("list[list[str]]", case.get("causes", []))]
    if case["gates"]:
        made["gates"] = case["gates"]
    if case["user"] != {"kind": "person"}:
        made["user"] = case["user"]
    for name in ("old", "object"):
        if name in case:
            made[name] = merge_patch(case["manifest"], case[name])
    return made


def merge_patch(old: Json, new: Json) -> Json:
    """What makes `new` of `old`; neither has a null in an object."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed: JsonObject = {
        name: merge_patch(old.get(name), value)
        for name, value in new.items()
        if name not in old or old[name] != value or type(old[name]) is not type(value)
    }
    return {**changed, **{name: None for name in old if name not in new}}


def file_of(group: str) -> Path:
    """The file with the cases of a group."""
    return Path(__file__).with_name(f"{group.replace(' ', '-')}.jsonl.xz")


def main() -> None:
    groups = defaultdict[str, list[str]](list)
    for name in SOURCES:
        with gzip.open(Path(sys.argv[1]) / name, "rt", encoding="utf-8") as recorded:
            for line in recorded:
                case = packed(json.loads(line))
                text = json.dumps(case, separators=(",", ":"), ensure_ascii=False)
                groups[str(case["group"])].append(text)
    for group, lines in groups.items():
        data = lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
        file_of(group).write_bytes(data)


if __name__ == "__main__":
    main()
