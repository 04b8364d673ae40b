"""The generated CRD: up to date, structural, and readable in `kubectl explain`."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.api.crd import (
    CHART_PATH,
    CRD_PATH,
    chart_yaml,
    crd_yaml,
    custom_resource_definition,
    write_crds,
)
from kvscale.core.scaling import SCALE_DOWN, Scaling
from kvscale.core.spec import MetricsSpec, PoolSpec, TargetSpec
from kvscale.core.traffic.declared import Traffic

ROOT = Path(__file__).parents[2]
SCHEMA = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SPEC, STATUS = SCHEMA["properties"]["spec"], SCHEMA["properties"]["status"]

KEYWORDS = {
    "array": {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"},
    "boolean": set(),
    "integer": {"format", "minimum", "maximum", "enum"},
    "object": {"properties", "required", "x-kubernetes-validations"},
    "string": {"pattern", "minLength", "maxLength", "enum", "format", "default"},
}  # fmt: skip
REASONS = {"FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden", "FieldValueDuplicate"}
ABSENT = object()
WITH_DEFAULT = {".targets[].name", ".targets[].ref.apiVersion", ".targets[].ref.kind"}


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def field_exists(schema: dict[str, Any], path: str) -> bool:
    for name in path.removeprefix(".").split("."):
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


def problems(schema: dict[str, Any]) -> list[str]:
    """What the API server, or a reader, would object to."""
    found = [f"{path}: {text}" for path, node in nodes(schema) for text in node_problems(node)]
    for path, node in nodes(schema):
        name = path.rsplit(".", 1)[-1]
        if not name.endswith("[]") and name and not re.fullmatch(r"[a-z][A-Za-z0-9]*", name):
            found.append(f"{path}: not in camelCase")
        if not name.endswith("[]") and not node.get("description", "").strip():
            found.append(f"{path}: no description")
    return found


def node_problems(node: dict[str, Any]) -> Iterator[str]:
    kind = node.get("type")
    if kind not in KEYWORDS:
        yield f"type {kind!r}"
        return
    for extra in node.keys() - KEYWORDS[kind] - {"type", "description"}:
        yield f"keyword {extra} on {kind}"
    if kind == "object":
        yield from object_problems(node)
    if kind == "string" and not node.keys() & {"maxLength", "enum"}:
        yield "a string without bound"
    if "pattern" in node and not re.fullmatch(r"\^.*\$", node["pattern"]):
        yield "a pattern that is not anchored"
    if kind == "array":
        yield from array_problems(node)


def object_problems(node: dict[str, Any]) -> Iterator[str]:
    if not node.get("properties"):
        yield "an object without properties"
    if not set(node.get("required", ())) <= node.get("properties", {}).keys():
        yield "requires what is no property"
    for rule in node.get("x-kubernetes-validations", ()):
        if not rule.get("message") or rule.get("reason") not in REASONS:
            yield "a rule without message or reason"
        elif not field_exists(node, rule["fieldPath"]):
            yield f"a rule of no field: {rule['fieldPath']}"


def array_problems(node: dict[str, Any]) -> Iterator[str]:
    if "maxItems" not in node:
        yield "a list without bound"
    if node.get("x-kubernetes-list-type") not in ("atomic", "map"):
        yield "a list without type"
    items = node.get("items", {})
    for key in node.get("x-kubernetes-list-map-keys", ()):
        child = items.get("properties", {}).get(key, {})
        if key not in items.get("required", ()) and "default" not in child:
            yield f"list key {key} is neither required nor defaulted"


@pytest.mark.parametrize("schema", [SPEC, STATUS], ids=["spec", "status"])
def test_the_schema_is_structural_bounded_and_described(schema: dict[str, Any]) -> None:
    assert problems(schema) == []


@pytest.mark.parametrize(
    ("path", "change", "finding"),
    [
        ("scaling.maxReplicas", {"type": ABSENT}, "type None"),
        ("scaling.maxReplicas", {"type": "number"}, "type 'number'"),
        ("scaling.maxReplicas", {"exclusiveMinimum": True}, "keyword exclusiveMinimum"),
        ("scaling.maxReplicas", {"description": ""}, "no description"),
        ("scaling", {"anyOf": []}, "keyword anyOf"),
        ("scaling", {"additionalProperties": False}, "keyword additionalProperties"),
        ("scaling", {"title": "x"}, "keyword title"),
        ("scaling", {"required": ["nothing"]}, "requires what is no property"),
        ("scaling", {"properties": {}}, "an object without properties"),
        ("scaling", {"x-kubernetes-validations": [{"rule": "true"}]}, "a rule without message"),
        ("mode", {"nullable": True}, "keyword nullable"),
        ("mode", {"enum": ABSENT}, "a string without bound"),
        ("targets", {"maxItems": ABSENT}, "a list without bound"),
        ("targets", {"x-kubernetes-list-type": ABSENT}, "a list without type"),
        ("targets", {"x-kubernetes-list-map-keys": ["ref2"]}, "neither required nor defaulted"),
        ("model.preset", {"pattern": "a+"}, "a pattern that is not anchored"),
    ],
)
def test_the_linter_finds(path: str, change: dict[str, Any], finding: str) -> None:
    schema = copy.deepcopy(SPEC)
    node = schema
    for name in path.split("."):
        node = node["properties"][name]
    node.update(change)
    for key in [key for key, value in change.items() if value is ABSENT]:
        del node[key]
    assert any(finding in text for text in problems(schema)), problems(schema)


def test_only_identity_has_a_default() -> None:
    assert {path for path, node in nodes(SPEC) if "default" in node} == WITH_DEFAULT
    assert not [path for path, node in nodes(STATUS) if "default" in node]


def test_every_number_of_the_spec_is_bounded() -> None:
    unbounded = [
        path
        for path, node in nodes(SPEC)
        if node["type"] == "integer" and not node.keys() >= {"minimum", "maximum"} and "enum" not in node
    ]  # fmt: skip
    assert unbounded == []


def test_only_targets_is_required() -> None:
    assert SPEC["required"] == ["targets"]
    assert SCHEMA["required"] == ["spec"]


def described(path: str) -> str:
    node = SPEC
    for name in path.split("."):
        node = node["properties"][name]
        node = node.get("items", node)
    return str(node["description"])


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("scaling.actuation", Scaling().actuation),
        ("scaling.minReplicas", Scaling().min_replicas),
        ("scaling.maxReplicas", Scaling().max_replicas),
        ("scaling.targetOccupancyPercent", Scaling().target_occupancy_percent),
        ("scaling.maxPendingReplicas", Scaling().max_pending),
        ("scaling.onUnknown", Scaling().on_unknown),
        ("scaling.behavior.scaleDown", SCALE_DOWN.stabilization_window_seconds),
        ("traffic.source", Traffic().source),
        ("planning.percentile", PoolSpec(TargetSpec("Deployment", "x")).percentile),
        ("planning.mode", PoolSpec(TargetSpec("Deployment", "x")).planning_mode),
        (
            "planning.overflowPerMillion",
            PoolSpec(TargetSpec("Deployment", "x")).overflow_per_million,
        ),
    ],
)
def test_the_description_states_the_default_of_the_core(path: str, default: Any) -> None:
    assert re.search(rf"Absent: [^.]*\b{default}\b", described(path)), described(path)


def test_metrics_leave_their_defaults_to_the_operator() -> None:
    assert MetricsSpec().port is None
    assert "Absent: the operator's default" in described("metrics.port")


def test_printer_columns_point_at_fields_of_the_schema() -> None:
    version = custom_resource_definition()["spec"]["versions"][0]
    for column in version["additionalPrinterColumns"]:
        path = re.sub(r"\[[^]]*\]", "", column["jsonPath"])
        if path == ".metadata.creationTimestamp":
            continue
        node = SCHEMA
        for name in path.removeprefix(".").split("."):
            node = node.get("items", node)["properties"][name]
        assert node["type"] == {"string": "string", "integer": "integer"}[column["type"]], column


def test_the_written_files_are_up_to_date() -> None:
    hint = "run: python -m kvscale.api.crd"
    assert (ROOT / CRD_PATH).read_text() == crd_yaml(), hint
    assert (ROOT / CHART_PATH).read_text() == chart_yaml(), hint


def test_writing_makes_both_files(tmp_path: Path) -> None:
    write_crds(tmp_path)
    assert yaml.safe_load((tmp_path / CRD_PATH).read_text()) == custom_resource_definition()
    assert (tmp_path / CHART_PATH).read_text() == chart_yaml()


def test_the_charts_copy_differs_only_by_its_guards() -> None:
    plain = [line for line in chart_yaml().splitlines() if "{{" not in line]
    plain.remove("  annotations:")
    plain.remove("    helm.sh/resource-policy: keep")
    assert plain == crd_yaml().splitlines()
    assert "{{- if and .Values.crds.install" in chart_yaml().partition("apiVersion:")[0]
    assert (
        "{{- if .Values.crds.keep }}\n  annotations:\n    helm.sh/resource-policy: keep"
        in chart_yaml()
    )


def test_the_crd_has_no_template_text_or_alias_of_its_own() -> None:
    assert "{{" not in crd_yaml()
    assert not re.search(r"[&*]id\d", crd_yaml())


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_examples_use_only_fields_of_the_schema(path: Path) -> None:
    def walk(value: Any, schema: dict[str, Any], where: str) -> None:
        for name, child in value.items() if isinstance(value, dict) else ():
            assert name in schema["properties"], f"{where}.{name}"
            walk(child, schema["properties"][name], f"{where}.{name}")
        for item in value if isinstance(value, list) else ():
            walk(item, schema["items"], f"{where}[]")

    documents = [d for d in yaml.safe_load_all(path.read_text()) if d["kind"] == "InferencePool"]
    assert documents or path.name.startswith("vllm-")
    for document in documents:
        walk(document["spec"], SPEC, "spec")
