"""openapi.yaml against what the server really does."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import jsonschema_rs
import marshmallow
import pytest
import yaml
from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from marshmallow.validate import OneOf
from openapi_spec_validator import validate

from flower_core.texts import LANGUAGES
from flower_http import schemas
from flower_http.errors import CATALOGUE, Problem
from flower_http.fields import Flag, Labels, Number, Text, Texts, Whole
from flower_http.manager_api import RUN_ID, RUN_STATES
from flower_http.query import parse_query
from flower_http.schemas import ONCE_ONLY, StartParams
from flower_http.views import AskView, MailView
from tests.http.json_of import json_of
from tests.http.memory_manager import NOW, MemoryManager

ROOT = Path(__file__).parents[2]
CONTRACT: dict[str, Any] = yaml.safe_load((ROOT / "openapi.yaml").read_text(encoding="utf-8"))
SCHEMAS = CONTRACT["components"]["schemas"]
BODIES = {
    name.removesuffix("Schema"): found
    for name, found in vars(schemas).items()
    if isinstance(found, type) and issubclass(found, schemas.Body) and found is not schemas.Body
}
FORM = "application/x-www-form-urlencoded"
#: What poll.py serves in front of Flask.
EVENTS = {("GET", "/events"), ("GET", "/runs/{run_id}/events")}


def resolve(node: Any) -> Any:
    """``node`` with every reference replaced by what it points to."""
    if isinstance(node, list):
        return [resolve(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        found: Any = CONTRACT
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return resolve(found)
    return {key: resolve(value) for key, value in node.items()}


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """Every operation by method and path, with the parameters of its path."""
    found = {}
    for path, item in CONTRACT["paths"].items():
        shared = item.get("parameters", [])
        for method in item.keys() - {"parameters"}:
            operation = resolve(item[method])
            operation["parameters"] = resolve(shared) + operation.get("parameters", [])
            found[method.upper(), path] = operation
    return found


def views(app: Flask) -> dict[tuple[str, str], dict[str, Any]]:
    """What each view says of itself, by method and path as the contract writes it."""
    found = {}
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"HEAD"}:
            found[method, re.sub(r"<(?:path:)?(\w+)>", r"{\1}", rule.rule)] = vars(app.view_functions[rule.endpoint])[
                "flower"
            ]
    return found


def test_the_contract_is_valid_openapi() -> None:
    validate(CONTRACT)


def test_the_file_at_the_top_is_the_one_that_is_served() -> None:
    assert (ROOT / "openapi.yaml").samefile(ROOT / "flower_http" / "openapi.yaml")
    assert not (ROOT / "openapi.yaml").readlink().is_absolute()


def test_every_route_is_in_the_contract_and_nothing_else(client: FlaskClient) -> None:
    assert set(views(client.application)) | EVENTS == set(operations())


def test_every_operation_needs_the_scope_that_its_view_demands(client: FlaskClient) -> None:
    said = operations()
    for key, about in views(client.application).items():
        security = said[key].get("security", CONTRACT["security"])
        assert security == ([] if about["scope"] is None else [{"bearer": [about["scope"]]}]), key


def test_every_operation_takes_the_parameters_that_its_view_knows(client: FlaskClient) -> None:
    said = operations()
    for key, about in views(client.application).items():
        listed = said[key]["parameters"]
        assert {p["name"] for p in listed if p["in"] == "query"} == {param.name for param in about["query"]}, key
        in_path = {p["name"] for p in listed if p["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", key[1])), key
        takes_key = "Idempotency-Key" in {p["name"] for p in listed}
        assert takes_key == (key[0] == "POST"), key


def test_every_body_is_the_one_that_its_view_loads(client: FlaskClient) -> None:
    for key, about in views(client.application).items():
        said = CONTRACT["paths"][key[1]][key[0].lower()].get("requestBody")
        assert (said is None) == (about["body"] is None), key
        if about["body"] is not None:
            content = resolve(said)["content"]
            name = about["body"].__name__.removesuffix("Schema")
            assert content["application/json"]["schema"] == resolve(SCHEMAS[name]), key


def test_a_form_holds_the_fields_that_are_text_with_the_same_bounds() -> None:
    bodies = [operation.get("requestBody", {}).get("content", {}) for operation in operations().values()]
    forms = [content for content in bodies if FORM in content]
    assert len(forms) == 10
    for content in forms:
        said, form = content["application/json"]["schema"], content[FORM]["schema"]
        texts = {name: as_text(field) for name, field in said["properties"].items() if "string" in field["type"]}
        assert {name: as_text(field) for name, field in form["properties"].items()} == texts
        assert form["additionalProperties"] is False
        assert set(said.get("required", [])) <= set(form.get("required", []))


def as_text(field: dict[str, Any]) -> dict[str, Any]:
    """The bounds of a field in a form, where there is no null."""
    said = {key: value for key, value in field.items() if key not in ("type", "default", "description")}
    return said | ({"enum": [choice for choice in field["enum"] if choice is not None]} if "enum" in field else {})


@pytest.mark.parametrize("name", BODIES)
def test_every_schema_states_the_bounds_that_are_enforced(name: str) -> None:
    said, enforced = SCHEMAS[name], BODIES[name]()
    assert said["additionalProperties"] is False
    assert set(said.get("properties", {})) == set(enforced.fields)
    assert set(said.get("required", [])) == {field for field, made in enforced.fields.items() if made.required}
    for field, made in enforced.fields.items():
        stated = {
            key: value for key, value in said["properties"][field].items() if key not in ("description", "default")
        }
        assert stated == shape(made), f"{name}.{field}"


def shape(made: marshmallow.fields.Field[Any]) -> dict[str, Any]:
    """What the contract has to say about a field."""
    kinds = {Text: "string", Flag: "boolean", Whole: "integer", Number: "number", Labels: "object", Texts: "array"}
    kind = kinds[type(made)]
    found: dict[str, Any] = {"type": [kind, "null"] if made.allow_none else kind}
    if isinstance(made, Text):
        found |= {"maxLength": made.high} | ({"minLength": made.low} if made.low else {})
        found |= {"pattern": f"^{made.pattern}$"} if made.pattern else {}
    elif isinstance(made, Whole):
        found |= {"minimum": made.low, "maximum": made.high}
    elif isinstance(made, Number):
        found |= {"exclusiveMinimum" if made.above_low else "minimum": made.low, "maximum": made.high}
    elif isinstance(made, Labels):
        key, value = shape(made.key), shape(made.value)
        found |= {"maxProperties": made.most, "additionalProperties": value}
        found["propertyNames"] = {name: bound for name, bound in key.items() if name != "type"}
    elif isinstance(made, Texts):
        found |= {"maxItems": made.most, "items": shape(made.item)}
    for validator in made.validators:
        if isinstance(validator, OneOf):
            found["enum"] = [*validator.choices, *([None] if made.allow_none else [])]
    if isinstance(made, Text) and made.low and not found.keys() & {"pattern", "enum"}:
        found["pattern"] = r"\S"  # not only of blanks
    return found


def test_every_default_of_a_run_is_stated() -> None:
    stated = {name: about.get("default") for name, about in SCHEMAS["Start"]["properties"].items()}
    real = {field.name: field.default for field in fields(StartParams) if field.default is not MISSING}
    assert stated == {**real, "labels": {}, "params": {}}
    for name in ONCE_ONLY:
        assert "`once` only" in SCHEMAS["Start"]["properties"][name]["description"]


def test_states_ids_and_languages_agree() -> None:
    assert SCHEMAS["RunState"]["enum"] == list(RUN_STATES)
    assert CONTRACT["components"]["parameters"]["RunId"]["schema"]["pattern"] == f"^{RUN_ID.pattern}$"
    assert set(SCHEMAS["Start"]["properties"]["lang"]["enum"]) == {*LANGUAGES, None}


def test_replies_look_as_the_contract_says(client: FlaskClient, manager: MemoryManager, tmp_path: Path) -> None:
    manager.workspaces = tmp_path
    started = client.post("/runs", json={"task": "a", "labels": {"team": "shop"}})
    run_id = next(iter(manager.runs))
    at = f"/runs/{run_id}"
    ask = AskView("q1", "Which?", ("a", "b"), asked_at=NOW, expires_at=NOW)
    manager.put(run_id, asks=(ask,), mail=(MailView("m1", "hello", at=NOW),))
    checked = [("POST", "/runs", started)]
    checked += [("GET", path, client.get(path)) for path in ("/", "/healthz", "/readyz", "/runs", "/asks", "/inbox")]
    workspace = manager.workspaces / json_of(started)["workspace"]
    workspace.mkdir()
    (workspace / "a file").write_text("x")
    for name in ("", "/asks", "/steps", "/inbox", "/documents", "/files"):
        checked.append(("GET", f"/runs/{{run_id}}{name}", client.get(at + name)))
    for name, body in (("/inbox", {"text": "x"}), ("/interrupt", {}), ("/answer", {"ask_id": "q1", "option": 1})):
        checked.append(("POST", f"/runs/{{run_id}}{name}", client.post(at + name, json=body)))
    for question_id in ("o1", "o2"):
        checked.append(("POST", "/runs/{run_id}/oracle", client.post(f"{at}/oracle", json={"question": "again"})))
        asked = client.get(f"{at}/oracle/{question_id}")
        checked.append(("GET", "/runs/{run_id}/oracle/{question_id}", asked))
    checked.append(("POST", "/decline", client.post("/decline", json={"ask_id": "q1"})))
    checked.append(("GET", "/runs/{run_id}", client.get("/runs/nobody")))
    for path in ("documents/{name}", "files/{path}"):
        checked.append(("GET", f"/runs/{{run_id}}/{path}", client.get(f"{at}/{path}")))
    checked.append(("DELETE", "/runs/{run_id}", client.delete(at)))
    checked.append(("POST", "/runs/{run_id}/cancel", client.post(f"{at}/cancel")))
    for method, path, reply in checked:
        replies = operations()[method, path]["responses"]
        said = replies.get(str(reply.status_code), replies["default"])
        Draft202012Validator(said["content"][reply.mimetype]["schema"]).validate(reply.json)


@pytest.mark.parametrize("name", ["after", "tail", "limit", "wait"])
def test_numbers_of_the_events_query_are_taken_from_their_stated_minimum_on(name: str) -> None:
    stated = operations()["GET", "/runs/{run_id}/events"]["parameters"]
    schema = next(parameter["schema"] for parameter in stated if parameter["name"] == name)
    least = schema.get("minimum", 0)
    parse_query(f"{name}={least}", root=False)
    with pytest.raises(Problem) as caught:
        parse_query(f"{name}={least - 1}", root=False)
    assert (caught.value.slug, caught.value.extra["parameter"]) == ("bad-parameter", name)


def test_whatever_any_address_may_fail_with_is_stated_once_for_all() -> None:
    stated = CONTRACT["components"]["responses"]["Problem"]["description"]
    assert [slug for slug, (status, _) in CATALOGUE.items() if status >= 500 and f"`{slug}`" not in stated] == []


@pytest.mark.parametrize("path", ["/runs", "/runs/{run_id}/resume"])
def test_what_needs_a_place_for_a_run_says_what_it_can_be_refused_for(path: str) -> None:
    responses = operations()["POST", path]["responses"]
    stated = {code: reply["description"] for code, reply in responses.items()}
    for code, slug in (("409", "workspace-busy"), ("409", "flow-busy"), ("429", "queue-full"), ("503", "not-ready")):
        assert f"`{slug}`" in stated[code]


def test_the_examples_of_the_contract_are_valid() -> None:
    count = 0
    for operation in operations().values():
        for about in (operation.get("requestBody", {}), *operation["responses"].values()):
            for content in about.get("content", {}).values():
                examples = [example["value"] for example in content.get("examples", {}).values()]
                for example in [*examples, *([content["example"]] if "example" in content else [])]:
                    Draft202012Validator(content["schema"]).validate(example)
                    count += 1
    assert count > 10


def patterns(node: Any) -> set[str]:
    """Every regular expression of the contract."""
    if isinstance(node, list):
        return set().union(*map(patterns, node))
    if not isinstance(node, dict):
        return set()
    own = {node["pattern"]} if isinstance(node.get("pattern"), str) else set()
    return own.union(*map(patterns, node.values()))


def test_every_pattern_is_one_to_more_than_our_own_language() -> None:
    """Others read the contract, too: to a validator written in Rust backslash zero is no character."""
    found = patterns(CONTRACT)
    assert len(found) > 10
    for pattern in found:
        jsonschema_rs.validator_for({"type": "string", "pattern": pattern})
