"""CEL rules at work: which values they refuse, where they say so, and with which words."""

from __future__ import annotations

from tests.conformance.samples import definition, text
from tests.conformance.script import Api, scenario
from tests.conformance.test_definitions import group_of, install
from tests.conformance.wire import Body, Json

PORT: Body = {"type": "integer", "minimum": 0, "maximum": 99999}


def rule(expression: str, **more: Json) -> Body:
    return {"rule": expression, **more}


def ruled(properties: Body, *rules: Body) -> Body:
    return {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}


async def try_all(api: Api, schema: Body, specs: tuple[Body, ...]) -> str:
    """Define a kind with `schema` and create one object for each spec; return their path."""
    group = group_of(api)
    await install(api, definition("ruleds", "Ruled", schema, group=group))
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/ruleds"
    for number, spec in enumerate(specs):
        body = {"apiVersion": f"{group}/v1", "kind": "Ruled", "metadata": {"name": f"r{number}"}}
        await api.post(path, {**body, "spec": spec})
    return path


@scenario
async def test_rules_over_values(api: Api) -> None:
    numbers = {"type": "object", "additionalProperties": {"type": "number"}, "maxProperties": 5}
    schema = ruled(
        {
            "low": PORT,
            "high": PORT,
            "when": {"type": "string", "format": "date-time"},
            "wait": text(),
            "host": text(),
            "port": PORT,
            "ports": {"type": "array", "items": PORT, "maxItems": 5},
            "tree": numbers,
            "either": {"x-kubernetes-int-or-string": True},
        },
        rule("!has(self.low) || !has(self.high) || self.low <= self.high", message="low > high"),
        rule("!has(self.when) || self.when > timestamp('2020-01-01T00:00:00Z')"),
        rule("!has(self.wait) || duration(self.wait) < duration('1h')", message="too long"),
        rule("!has(self.host) || self.host.matches('^[a-z.]+$')", reason="FieldValueInvalid"),
        rule("!has(self.ports) || self.ports.exists_one(p, p == 80)", fieldPath=".ports"),
        rule("!has(self.ports) || self.ports.filter(p, p > 99).size() < 2"),
        rule("!has(self.tree) || self.tree.all(k, self.tree[k] >= 1.0)"),
        rule("!has(self.either) || type(self.either) == int || self.either == 'all'"),
        rule(
            "!has(self.port) || self.port != 13",
            messageExpression="'port ' + (has(self.host) ? self.host : 'x') + ' is unlucky'",
        ),
        rule("!has(self.port) || self.port / (self.port - 14) < 99999", message="divided by zero"),
    )
    specs: tuple[Body, ...] = (
        {"low": 1, "high": 2},
        {"low": 2, "high": 1},
        {"when": "2021-01-01T00:00:00Z"},
        {"when": "2019-01-01T00:00:00Z"},
        {"wait": "59m"},
        {"wait": "2h"},
        {"wait": "soon"},
        {"host": "UPPER"},
        {"ports": [80, 80]},
        {"ports": [80, 81]},
        {"ports": [80, 100, 101]},
        {"tree": {"a": 1, "b": 1.5}},
        {"tree": {"a": 0.5}},
        {"either": 5},
        {"either": "all"},
        {"either": "none"},
        {"port": 13},
        {"port": 14},
        {"port": 13, "host": "h", "low": 2, "high": 1},
    )
    await try_all(api, schema, specs)


@scenario
async def test_rules_with_functions_over_text_and_lists(api: Api) -> None:
    schema = ruled(
        {
            "words": {"type": "array", "items": text(5), "maxItems": 5},
            "name": text(),
            "sizes": {"type": "array", "items": PORT, "maxItems": 5},
        },
        rule("!has(self.words) || self.words.join(',').size() < 12"),
        rule("!has(self.words) || self.words.isSorted()"),
        rule("!has(self.words) || self.words.indexOf('no') == -1"),
        rule("!has(self.sizes) || self.sizes.sum() < 100 && self.sizes.max() < 50"),
        rule("!has(self.name) || self.name.lowerAscii() == self.name"),
        rule("!has(self.name) || self.name.split('-').size() < 3"),
        rule("!has(self.name) || self.name.find('[0-9]+') == ''"),
        rule("!has(self.name) || !self.name.startsWith('x') || self.name.endsWith('x')"),
        rule("!has(self.name) || self.name.replace('a', '').substring(0, 1) != 'z'"),
    )
    specs: tuple[Body, ...] = (
        {"words": ["a", "b"]},
        {"words": ["b", "a"]},
        {"words": ["abcde", "abcde", "x"]},
        {"words": ["no"]},
        {"sizes": [1, 2]},
        {"sizes": [49, 49, 49]},
        {"sizes": [51]},
        {"name": "good"},
        {"name": "Upper"},
        {"name": "a-b-c"},
        {"name": "b1"},
        {"name": "xy"},
        {"name": "az"},
    )
    await try_all(api, schema, specs)


@scenario
async def test_rules_with_addresses_and_quantities(api: Api) -> None:
    schema = ruled(
        {"url": text(), "ip": text(), "cidr": text(), "size": text()},
        rule("!has(self.url) || isURL(self.url) && url(self.url).getScheme() == 'https'"),
        rule("!has(self.ip) || isIP(self.ip) && ip(self.ip).family() == 4"),
        rule("!has(self.cidr) || isCIDR(self.cidr)", message="no network"),
        rule("!has(self.size) || quantity(self.size).isGreaterThan(quantity('1Mi'))"),
    )
    specs: tuple[Body, ...] = (
        {"url": "http://x"},
        {"url": "https://x"},
        {"ip": "::1"},
        {"ip": "192.0.2.1"},
        {"cidr": "192.0.2.0/24"},
        {"cidr": "192.0.2.0"},
        {"size": "2Mi"},
        {"size": "1Ki"},
        {"size": "lots"},
    )
    await try_all(api, schema, specs)


@scenario
async def test_rules_inside_lists_and_over_time(api: Api) -> None:
    step = {
        **ruled(
            {"name": text(), "n": PORT},
            rule("self.n >= oldSelf.n", message="n must grow", fieldPath=".n"),
            rule("self.n != 7", message="not seven"),
        ),
        "required": ["name"],
    }
    schema = ruled(
        {
            "const": {**text(), "x-kubernetes-validations": [rule("self == oldSelf")]},
            "steps": {
                "type": "array",
                "maxItems": 5,
                "items": step,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "keys": {
                "type": "object",
                "maxProperties": 5,
                "additionalProperties": ruled({"v": PORT}, rule("self.v != 3")),
            },
        },
        rule("has(self.const) == has(oldSelf.const)", message="const comes or goes"),
    )
    specs: tuple[Body, ...] = (
        {"const": "a", "steps": [{"name": "x", "n": 1}, {"name": "y", "n": 5}]},
        {"steps": [{"name": "x", "n": 7}]},
        {"steps": [{"name": "x"}]},
        {"keys": {"good": {"v": 1}, "b/d": {"v": 3}}},
    )
    first = f"{await try_all(api, schema, specs)}/r0"
    await api.patch(first, {"spec": {"const": "b"}})
    await api.patch(first, {"spec": {"const": None}})
    await api.patch(first, {"spec": {"steps": [{"name": "y", "n": 6}, {"name": "x", "n": 0}]}})
    await api.patch(first, {"spec": {"steps": [{"name": "y", "n": 6}, {"name": "z", "n": 0}]}})
    await api.patch(first, {"spec": {"steps": None}})
    await api.patch(first, {"spec": {"keys": {"k": {"v": 3}}}})
    await api.patch(first, {"metadata": {"labels": {"a": "b"}}})
