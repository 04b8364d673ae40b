"""`kvscale plan`: what a pool holds and how many replicas it needs, without a cluster."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from kvscale.adapters.kubernetes.project import Malformed, project_workload
from kvscale.api.inferencepool import GROUP, KIND, VERSION
from kvscale.api.parse import parse_pool
from kvscale.api.unknown_fields import unknown_fields
from kvscale.app.plan import plan as plan_pool
from kvscale.app.plan_view import plan_document, plan_page
from kvscale.cli.errors import fail
from kvscale.cli.files import Object, read_manifests, shown_path
from kvscale.cli.output import Output, OutputOption, emit, one_line, refuse
from kvscale.core.capacity.ceiling import Refusal
from kvscale.core.capacity.device_table import find_device
from kvscale.core.spec import ConfigMapRef, PoolSpec
from kvscale.core.values import Unknown
from kvscale.ports import WorkloadRecord

API_VERSION = f"{GROUP}/{VERSION}"
MOST_UNKNOWN = 5
NEEDS_DEVICE = frozenset({"NoDevices", "NoNodeAccess", "DeviceUnknown"})
NEEDS_MANIFEST = frozenset({"ModelUnknown", "EngineUnknown"})


def plan(
    *,
    file: Annotated[
        Path,
        typer.Option(
            "--filename", "-f", help="YAML with an InferencePool; its workload may be in it too"
        ),
    ],
    manifest: Annotated[
        Path | None,
        typer.Option("--manifest", help="YAML with the workload (and ConfigMap) of the pool"),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="device: NVIDIA-L4, L4, H100; wins over the pool's")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Ceiling, headroom and replicas of a pool, with every step of the arithmetic."""
    objects = read_manifests(file, "-f")
    name, spec = _pool(objects, file)
    if manifest is not None:
        objects += read_manifests(manifest, "--manifest")
    if gpu is not None:
        device = find_device(gpu)
        if isinstance(device, Refusal):
            fail(one_line(f"--gpu: {device.message}"))
    workload = _workload(objects, spec, manifest)
    result = plan_pool(
        name,
        spec,
        workload=workload,
        config_map=_config_map(objects, spec),
        gpu=gpu,
    )
    document = plan_document(result)
    if isinstance(result, Refusal):
        mends = [
            f"; or give {option}"
            for option, lacking in (
                ("--gpu", gpu is None and result.reason in NEEDS_DEVICE),
                (
                    "the server's manifest by --manifest",
                    workload is None and result.reason in NEEDS_MANIFEST,
                ),
            )
            if lacking
        ]
        refuse(replace(result, message="".join((result.message, *mends))), document, output)
    emit(document, plan_page(result), output)


def _pool(objects: list[Object], file: Path) -> tuple[str, PoolSpec]:
    pools = [
        one for one in objects if one.get("kind") == KIND and one.get("apiVersion") == API_VERSION
    ]
    if len(pools) != 1:
        kinds = sorted({f"{one.get('apiVersion')} {one.get('kind')}" for one in objects})
        fail(
            one_line(
                f"-f: {shown_path(file)} holds {len(pools)} objects of kind {KIND} "
                f"({API_VERSION}), one is needed (it holds: {', '.join(kinds)})"
            )
        )
    raw = pools[0]
    spec = raw.get("spec")
    if not isinstance(spec, dict):
        fail(f"-f: {shown_path(file)}: the InferencePool has no spec: add spec.targets")
    parsed = parse_pool(spec)
    if isinstance(parsed, Unknown):
        fail(one_line(f"-f: {shown_path(file)}: {parsed.message}"))
    if unknown := unknown_fields(spec):
        fail(one_line(f"-f: {shown_path(file)}: {'; '.join(unknown[:MOST_UNKNOWN])}"))
    return _name(raw), parsed


def _workload(
    objects: list[Object], spec: PoolSpec, manifest: Path | None
) -> WorkloadRecord | None:
    """The pool's target among the objects."""
    wanted = spec.target
    for raw in objects:
        if raw.get("kind") == wanted.ref_kind and _name(raw) == wanted.ref_name:
            # A manifest lacks what the API server would fill in.
            metadata = {"namespace": "default", "uid": "not-created", **raw["metadata"]}
            try:
                return project_workload(wanted.ref_kind, {**raw, "metadata": metadata})
            except Malformed as error:
                fail(one_line(f"{wanted.ref_kind} {wanted.ref_name} cannot be read: {error}"))
    if manifest is not None:
        fail(
            f"--manifest: {manifest} holds no {wanted.ref_kind} {wanted.ref_name!r}, which "
            "spec.targets[0].ref names"
        )
    return None


def _config_map(objects: list[Object], spec: PoolSpec) -> dict[str, str] | Unknown | None:
    ref = spec.model
    if not isinstance(ref, ConfigMapRef):
        return None
    for raw in objects:
        if raw.get("kind") == "ConfigMap" and _name(raw) == ref.name:
            data = raw.get("data")
            pairs: dict[Any, Any] = data if isinstance(data, dict) else {}
            return {key: text for key, text in pairs.items() if isinstance(text, str)}
    return Unknown(
        "ConfigMapNotFound",
        f"spec.model.configMapRef: ConfigMap {ref.name!r} is in none of the files: add it to one, "
        "or name its file by --manifest",
    )


def _name(raw: Object) -> str:
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
