"""Memory of an informer's cache per object, against the size of the object's JSON.

python benchmarks/runtime_informer.py [--count 10000] [--json FILE]
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import arguments, report, table
from benchmarks.runtime_sample import bodies, resident_bytes

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.runtime import Cache
from hypercobalt.runtime.client.collection import read_page


async def measure(count: int) -> tuple[float, float]:
    """Bytes of JSON and bytes of memory, per object."""
    _, pages = bodies(count, page=500)
    size = sum(map(len, pages)) / count
    cache: Cache[Hypervisor] = Cache()
    for obj in read_page(pages[0], Hypervisor).items:
        cache.put(obj)  # decoders and interned names are made here, once
    gc.collect()
    before = resident_bytes()
    for page in pages[1:]:
        for obj in read_page(page, Hypervisor).items:
            cache.put(obj)
    gc.collect()
    return size, (resident_bytes() - before) / (len(cache) - 500)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    size, memory = asyncio.run(measure(options.count))
    row = (str(options.count), f"{size:.0f}", f"{memory:.0f}", f"{memory / size:.2f}")
    print(table(("objects", "JSON bytes", "memory bytes", "ratio"), [row]))
    document = {"count": options.count, "json_bytes": size, "memory_bytes": memory}
    report(options.json, document)


if __name__ == "__main__":
    main()
