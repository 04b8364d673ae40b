"""The pool of a file, with its workload and its ConfigMap where files hold them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from kvscale.adapters.kubernetes.project import Malformed, project_workload
from kvscale.api.inferencepool import GROUP, KIND, VERSION
from kvscale.api.parse import parse_pool
from kvscale.api.unknown_fields import unknown_fields
from kvscale.cli.errors import fail
from kvscale.cli.files import Object, read_manifests, shown_path
from kvscale.cli.output import one_line
from kvscale.core.spec import ConfigMapRef, PoolSpec
from kvscale.core.values import Unknown
from kvscale.records import WorkloadRecord

API_VERSION = f"{GROUP}/{VERSION}"
MOST_UNKNOWN = 5
NEEDS_DEVICE = frozenset({"NoDevices", "NoNodeAccess", "DeviceUnknown"})
NEEDS_MANIFEST = frozenset({"ModelUnknown", "EngineUnknown"})

FileOption = Annotated[
    Path,
    typer.Option(
        "--filename", "-f", help="YAML with an InferencePool; its workload may be in it too"
    ),
]
ManifestOption = Annotated[
    Path | None,
    typer.Option("--manifest", help="YAML with the workload (and ConfigMap) of the pool"),
]


@dataclass(frozen=True, slots=True)
class PoolFiles:
    """What the files say.

    Attributes:
        name, spec: of the pool.
        workload: that it scales; None where no file holds it.
        config_map: data of the ConfigMap that the spec names; None when it names none.
    """

    name: str
    spec: PoolSpec
    workload: WorkloadRecord | None
    config_map: dict[str, str] | Unknown | None


def read_pool(file: Path, manifest: Path | None) -> PoolFiles:
    """The pool of `-f`, with what it and `--manifest` hold of its workload."""
    objects = read_manifests(file, "-f")
    name, spec = _pool(objects, file)
    if manifest is not None:
        objects += read_manifests(manifest, "--manifest")
    return PoolFiles(name, spec, _workload(objects, spec, manifest), _config_map(objects, spec))


def mend(reason: str, files: PoolFiles, *, gpu: bool) -> str:
    """What else a command could be given when the pool cannot be sized for that reason."""
    mends = (
        ("--gpu", not gpu and reason in NEEDS_DEVICE),
        (
            "the server's manifest by --manifest",
            files.workload is None and reason in NEEDS_MANIFEST,
        ),
    )
    return "".join(f"; or give {option}" for option, lacking in mends if lacking)


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
