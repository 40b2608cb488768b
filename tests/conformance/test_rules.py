"""CEL rules at work: which values they refuse, at which field, and with which message."""

from __future__ import annotations

from tests.conformance.definitions import OPEN, group_of, install
from tests.conformance.samples import definition, text
from tests.conformance.script import Api, scenario
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
async def test_rules_over_values_are_evaluated(api: Api) -> None:
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
async def test_rules_with_functions_over_text_and_lists_are_evaluated(api: Api) -> None:
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
async def test_rules_with_quantities_are_evaluated(api: Api) -> None:
    larger = rule("!has(self.size) || quantity(self.size).isGreaterThan(quantity('1Mi'))")
    schema = ruled({"size": text()}, larger)
    await try_all(api, schema, ({"size": "2Mi"}, {"size": "1Ki"}, {"size": "lots"}))


@scenario
async def test_functions_return_the_same_values(api: Api) -> None:
    """Every condition holds, on both servers; one that does not is named in the answer."""
    conditions = (
        "self.s.substring(0, 6) == 'banana' && self.s.substring(4) == 'na'",
        "self.s.substring(1, 2) == 'a' && self.s.substring(6) == ''",
        "self.s.substring(2, 2) == ''",
        "self.s.charAt(3) == 'a' && self.s.charAt(6) == ''",
        "self.s.replace('a', 'b', 1) == 'bbnana' && self.s.replace('an', '') == 'ba'",
        "self.s.split('').size() == 6 && self.s.split('n', 2) == ['ba', 'ana']",
        "self.s.indexOf('') == 0 && self.s.indexOf('n', 3) == 4 && self.s.indexOf('q') == -1",
        "self.s.lastIndexOf('') == 6 && self.s.lastIndexOf('n', 3) == 2",
        "self.s.lastIndexOf('n', 2) == 2 && self.s.lastIndexOf('na', 3) == 2",
        "self.s.upperAscii() == 'BANANA' && ' a '.trim() == 'a' && self.l.join('-') == 'b-a-b'",
        "self.s.find('n[a-z]') == 'na' && self.s.find('[0-9]+') == ''",
        "self.s.findAll('n') == ['n', 'n'] && self.s.findAll('n', 1) == ['n']",
        "self.l.indexOf('b') == 0 && self.l.lastIndexOf('b') == 2 && self.l.indexOf('q') == -1",
        "self.l.max() == 'b' && self.l.min() == 'a' && self.n.sum() == 6 && self.n.max() == 3",
        "!self.l.isSorted() && self.n.isSorted()",
        "'%s %d %.2f %x'.format([self.s, 5, 1.5, 255]) == 'banana 5 1.50 ff'",
        "quantity(self.q).isGreaterThan(quantity('1')) && sign(quantity(self.q)) == 1",
        "quantity(self.q).asApproximateFloat() == 1.5 && !quantity(self.q).isInteger()",
        "quantity('10k').asInteger() == 10000 && quantity('1k').add(24) == quantity('1Ki')",
        "quantity('1').sub(2).compareTo(quantity('-1')) == 0",
        "quantity('1').isLessThan(quantity('2')) && !quantity('2').isLessThan(quantity('2'))",
        "isQuantity('1.5e3') && !isQuantity('1x') && !isQuantity('')",
        "duration('90m').getHours() == 1 && timestamp('2020-02-03T04:05:06Z').getMonth() == 1",
        "self.when.getFullYear() == 2020 && self.wait > duration('1h') && self.data == b'abc'",
        "self.?none.orValue('x') == 'x' && self.?s.hasValue() && self.?l[?9].orValue('q') == 'q'",
        "'a' in self.m && !('b' in self.m) && self.m['a'] == 1 && self.m.exists(k, self.m[k] > 0)",
        "5 / 2 == 2 && -5 % 3 == -2 && 5.0 / 2.0 == 2.5",
        "int('12') == 12 && double('1.5') == 1.5 && string(uint(3)) == '3' && bool('true')",
        "type(self.s) == string && self.l == ['b', 'a', 'b'] && size(self.s) == 6",
        "self.either == 5 && self.l + ['c'] == ['b', 'a', 'b', 'c']",
        "self.l.map(w, w + 'x')[1] == 'ax' && self.l.filter(w, w > 'a').size() == 2",
    )
    schema = ruled(
        {
            "s": text(),
            "l": {"type": "array", "items": text(5), "maxItems": 5},
            "n": {"type": "array", "items": PORT, "maxItems": 5},
            "m": {"type": "object", "additionalProperties": PORT, "maxProperties": 5},
            "q": text(),
            "none": text(),
            "when": {"type": "string", "format": "date-time"},
            "wait": {"type": "string", "format": "duration"},
            "data": {"type": "string", "format": "byte", "maxLength": 20},
            "either": {"x-kubernetes-int-or-string": True},
        },
        *map(rule, conditions),
    )
    spec = {
        "s": "banana",
        "l": ["b", "a", "b"],
        "n": [1, 2, 3],
        "m": {"a": 1},
        "q": "1500m",
        "when": "2020-01-01T00:00:00Z",
        "wait": "1h30m",
        "data": "YWJj",
        "either": 5,
    }
    await try_all(api, schema, (spec,))


@scenario
async def test_rules_inside_lists_and_transition_rules_are_evaluated(api: Api) -> None:
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


@scenario
async def test_transition_rules_are_evaluated_for_parts_that_stay(api: Api) -> None:
    grows = rule("self > oldSelf", message="must grow")
    step = {**ruled({"name": text(), "n": PORT}, rule("self.n > oldSelf.n")), "required": ["name"]}
    schema = ruled(
        {
            "serial": {**PORT, "x-kubernetes-validations": [grows]},
            "after": {
                **PORT,
                "x-kubernetes-validations": [
                    rule("oldSelf.orValue(0) < self", optionalOldSelf=True, message="must be more")
                ],
            },
            "note": {**text(), "nullable": True, "x-kubernetes-validations": [grows]},
            "steps": {
                "type": "array",
                "maxItems": 5,
                "items": step,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "other": PORT,
        },
    )
    specs: tuple[Body, ...] = (
        {"serial": 1},
        {"after": 1},
        {"after": 0},
        {"note": None},
        {"note": "a"},
        {"steps": [{"name": "x", "n": 1}]},
        {"other": 1},
    )
    path = await try_all(api, schema, specs)
    for number in range(len(specs)):
        one = f"{path}/r{number}"
        await api.patch(one, {"metadata": {"labels": {"a": "b"}}})
        await api.patch(one, {"spec": {"other": 2}})
    await api.patch(f"{path}/r0", {"spec": {"serial": 2}})
    await api.patch(f"{path}/r1", {"spec": {"after": 2}})
    await api.patch(f"{path}/r3", {"spec": {"note": "b"}})
    await api.patch(f"{path}/r3", {"spec": {"note": "a"}})
    await api.patch(f"{path}/r3", {"spec": {"note": None}})
    await api.patch(f"{path}/r5", {"spec": {"steps": [{"name": "x", "n": 2}, {"name": "y"}]}})
    await api.patch(f"{path}/r5", {"spec": {"steps": [{"name": "x", "n": 2}, {"name": "z"}]}})


@scenario
async def test_transition_rules_are_evaluated_when_the_status_changes(api: Api) -> None:
    group = group_of(api)
    serial = {**PORT, "x-kubernetes-validations": [rule("self > oldSelf")]}
    body = definition("ruleds", "Ruled", ruled({"serial": serial}), group=group, status=OPEN)
    await install(api, body)
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/ruleds"
    one = {"apiVersion": f"{group}/v1", "kind": "Ruled", "metadata": {"name": "one"}}
    await api.post(path, {**one, "spec": {"serial": 1}})
    await api.patch(f"{path}/one/status", {"status": {"seen": 1}})
    await api.patch(f"{path}/one", {"spec": {"serial": 2}})


@scenario
async def test_values_that_fail_rules_that_came_later_may_stay(api: Api) -> None:
    """An unchanged value that fails a new rule is kept."""
    group = group_of(api)
    path = await install(api, definition("ruleds", "Ruled", OPEN, group=group))
    things = f"/apis/{group}/v1/namespaces/{api.namespace}/ruleds"
    thing = {"apiVersion": f"{group}/v1", "kind": "Ruled"}
    for name, spec in (("fails", {"n": 9}), ("breaks", {"n": 0})):
        await api.post(things, {**thing, "metadata": {"name": name}, "spec": spec})
    schema = ruled({"n": PORT}, rule("10 / self.n > 2", message="too many"))
    strict = definition("ruleds", "Ruled", schema, group=group)
    replace = [{"op": "replace", "path": "/spec/versions", "value": strict["spec"]["versions"]}]
    await api.patch(path, replace, "json")
    probe = {**thing, "metadata": {"name": "probe"}, "spec": {"n": 9}}
    for _ in range(100):
        if (await api.request("POST", f"{things}?dryRun=All", probe)).status == 422:
            break
    for name in ("fails", "breaks"):
        await api.patch(f"{things}/{name}?dryRun=All", {"metadata": {"labels": {"a": "b"}}})
        await api.patch(f"{things}/{name}", {"spec": {"n": 8}})
        await api.patch(f"{things}/{name}", {"spec": {"n": 3}})
