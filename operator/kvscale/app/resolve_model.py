"""The model of a pool: by its spec, or by the name in the server's arguments."""

import json
from collections.abc import Mapping
from typing import Any

from kvscale.core.engines.arguments import ServerArguments
from kvscale.core.model.config_json import read_shape
from kvscale.core.model.presets import preset
from kvscale.core.model.shape import ModelShape
from kvscale.core.refusal import Refusal
from kvscale.core.spec import ConfigMapRef, ModelSource
from kvscale.core.values import Unknown

ConfigMap = Mapping[str, str] | Unknown | None
Found = tuple[ModelShape | Unknown, tuple[str, ...]]

_MEND = "state spec.model.preset, spec.model.configMapRef or spec.model.shape"


def find_shape(
    source: ModelSource | None, arguments: ServerArguments | None, config_map: ConfigMap
) -> Found:
    """The model's shape, and what was assumed of it.

    Args:
        source: `spec.model`; None: the server's arguments name the model.
        arguments: of the server; None when they cannot be read.
        config_map: data of the ConfigMap that `source` names.
    """
    if isinstance(source, ModelShape):
        return source, ()
    if isinstance(source, ConfigMapRef):
        return _from_config_map(source, config_map), ()
    if source is not None:
        found = preset(source)
        if isinstance(found, Refusal):
            return Unknown("ModelUnknown", f"spec.model.preset: {found.message}"), ()
        return found, ()
    return _from_arguments(arguments)


def _from_config_map(ref: ConfigMapRef, config_map: ConfigMap) -> ModelShape | Unknown:
    if config_map is None:
        return Unknown("ConfigMapNotFound", f"ConfigMap {ref.name!r} has not been read yet")
    if isinstance(config_map, Unknown):
        return config_map
    config = _json(ref, ref.config_key, config_map)
    if isinstance(config, Unknown):
        return config
    quantization: dict[str, Any] | None = None
    if ref.quantization_key:
        read = _json(ref, ref.quantization_key, config_map)
        if isinstance(read, Unknown):
            return read
        quantization = read
    shape = read_shape(
        config, name=str(config.get("_name_or_path") or ref.name), quantization=quantization
    )
    if isinstance(shape, Refusal):
        # a layer kind or an architecture without a rule is not the ConfigMap's mistake
        reason = "ModelConfigInvalid" if shape.reason == "InvalidConfig" else shape.reason
        return Unknown(reason, f"key {ref.config_key!r} of ConfigMap {ref.name!r}: {shape.message}")
    return shape


def _json(ref: ConfigMapRef, key: str, config_map: Mapping[str, str]) -> dict[str, Any] | Unknown:
    """A key of the ConfigMap as a JSON object."""
    where = f"ConfigMap {ref.name!r}"
    text = config_map.get(key)
    if text is None:
        has = ", ".join(sorted(config_map)) or "no key"
        return Unknown(
            "ConfigMapInvalid",
            f"{where} has no key {key!r} (it has {has}): store the model's config.json under it, "
            "or name the key in spec.model.configMapRef",
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unknown("ConfigMapInvalid", f"key {key!r} of {where} is no JSON: {error}")
    if not isinstance(value, dict):
        return Unknown("ConfigMapInvalid", f"key {key!r} of {where} is no JSON object")
    return value


def _from_arguments(arguments: ServerArguments | None) -> Found:
    if arguments is None:
        return Unknown("ModelUnknown", f"the server's arguments cannot be read: {_MEND}"), ()
    unread = next((one for one in arguments.unread if one.field == "model"), None)
    if unread is not None and not arguments.served_model_name:
        return Unknown("ModelUnknown", unread.message), ()
    model = arguments.engine.model
    if not model and not arguments.served_model_name:
        return Unknown("ModelUnknown", f"the server's arguments name no model: {_MEND}"), ()
    for name, how in _names(model, arguments.served_model_name):
        shape = preset(name)
        if isinstance(shape, ModelShape):
            note = f"the model is taken to be {shape.name}, by {how}" if how else ""
            return shape, (note,) if note else ()
    said = model or arguments.served_model_name
    refusal = preset(said.rstrip("/").rsplit("/", 1)[-1] if _is_path(said) else said)
    why = refusal.message if isinstance(refusal, Refusal) else ""
    return Unknown("ModelUnknown", f"the server's model is {said!r}, {why}: {_MEND}"), ()


def _is_path(model: str) -> bool:
    return model.startswith(("/", ".", "s3:", "gs:", "hf:", "pvc:"))


def _names(model: str, served: str) -> list[tuple[str, str]]:
    """Names to look for, the surest first, each with how it was come by ("" : stated)."""
    names = [(model, "")] if model else []
    parts = [part for part in model.split("/") if part]
    if _is_path(model):
        how = f"the path {model}"
        names.append(("/".join(parts[-2:]), how))
        names += [
            (part.removeprefix("models--").replace("--", "/"), how)
            for part in parts
            if part.startswith("models--")  # the layout of the Hugging Face cache
        ]
    if served:
        names.append((served, f"--served-model-name {served}"))
    return names
