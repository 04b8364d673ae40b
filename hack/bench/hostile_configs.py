"""Hostile config.json files, seeded: what a careless or a hostile person may hand in.

Real configs of every architecture with values broken, keys missing, quantisation of another model
or of none; objects of junk under real keys; and a few built to be slow: long lists, deep nesting,
as many layers as are read, patterns that each module is compared with.
"""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from kvscale.core.model.architectures.table import ARCHITECTURES
from kvscale.core.model.checkpoint.module_patterns import MOST_PATTERNS
from kvscale.core.model.checkpoint.quantization import METHODS

FOLDER = Path(__file__).parents[2] / "tests" / "data" / "hf_configs"
LARGEST_REAL = 200_000
"""Bytes of the largest real config that is mutated; a copy of a larger one takes long itself."""
MOST_LAYERS = 512
DEEP = 2000

JUNK: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 64, 511, 512, 513, 65_536, 1 << 31, 1 << 70, -(1 << 70), 10**400,
    0.0, -0.0, 0.5, 1.5, 1e-300, 1e308, float("nan"), float("inf"), float("-inf"),
    True, False, None, "", " ", "4096", "auto", "float16", "bfloat16", "fp8", "None", "\x00",
    "M" * 4096, "full_attention", "re:.*", "re:(a+)+$", "*" * 300, [], {}, [[]], [{}], [None], [0],
    [-1], [1e9], [True], [""], ["re:(.*)*b"], [0] * 512, [1] * 64, ["full_attention"] * 512,
    ["mamba"] * 61,
    ["sliding_attention"] * 48, [[0, 1]] * 128, {"a": {"b": {"c": []}}}, {"": None}, {"0": 0},
    {"attention": {"no_op": True}}, {"quant_method": "fp8"}, list(range(2000)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hostile:
    """One input of `read_shape`.

    Attributes:
        what: it is, for messages.
        config: the config.json.
        quantization: the hf_quant_config.json, or None.
    """

    what: str
    config: Any
    quantization: Any = None


def hostile_configs(count: int, seed: int) -> Iterator[Hostile]:
    """That many hostile configs at random, the same for the same seed.

    Args:
        count: how many.
        seed: of the randomness.
    """
    chance = Random(seed)  # noqa: S311 - a benchmark, no secret
    real = _real_configs()
    makers = (_mutated, _mutated, _mutated, _other_architecture, _quantised, _of_junk, _no_object)
    for _ in range(count):
        yield chance.choice(makers)(chance, real)


def slow_configs() -> Iterator[Hostile]:
    """Configs built to take long, one for each way that was thought of."""
    real = {path.parent.name: path for path in sorted(FOLDER.glob("*/config.json"))}
    largest = sorted(real.values(), key=lambda path: path.stat().st_size)[-3:]
    for path in largest:
        config = json.loads(path.read_text(encoding="utf-8"))
        yield Hostile(f"{path.parent.name} as it is", config)
        yield Hostile(f"{path.parent.name}, most layers", _deeper(config))
    seen: set[str] = set()
    for name, path in real.items():
        config = json.loads(path.read_text(encoding="utf-8"))
        label = config["architectures"][0]
        if label in seen or path.stat().st_size > LARGEST_REAL:
            continue
        seen.add(label)
        yield Hostile(f"{name}, most layers", _deeper(config))
    mixture = json.loads(real["Qwen--Qwen3-30B-A3B"].read_text(encoding="utf-8"))
    mixture["num_hidden_layers"] = MOST_LAYERS
    for what, patterns in _pattern_lists():
        quantised = {"quant_method": "fp8", "modules_to_not_convert": patterns}
        yield Hostile(f"patterns: {what}", mixture | {"quantization_config": quantised})
    yield Hostile("quantized_layers, all", mixture | {"quantization_config": _each_module()})
    yield Hostile("deep objects", mixture | {"rope_scaling": _nested({}, DEEP)})
    yield Hostile("deep lists", mixture | {"layer_types": _nested([], DEEP)})
    yield Hostile("a million keys", mixture | {str(number): number for number in range(1_000_000)})
    yield Hostile("a long list", mixture | {"layer_types": ["full_attention"] * 1_000_000})
    yield Hostile("a long text", mixture | {"torch_dtype": "x" * 10_000_000})
    yield Hostile("a huge number", mixture | {"num_hidden_layers": 1 << 1_000_000})


def _pattern_lists() -> Iterator[tuple[str, list[str]]]:
    layers, each = range(MOST_LAYERS), MOST_PATTERNS // MOST_LAYERS
    yield "names of modules", [f"model.layers.{n}.mlp.gate{m}" for n in layers for m in range(each)]
    yield "one wildcard a layer", [f"model.layers.{n}.self_attn*" for n in layers]
    yield "wildcards a layer", [f"model.layers.{n}.x{m}*" for n in layers for m in range(8)]
    yield "too many wildcards", [f"model.*.{n}.x*y" for n in range(MOST_PATTERNS)]
    yield "wildcards with many stars", ["*a" * 100 + str(n) for n in range(32)]
    yield "expressions", [rf"re:.*layers\.\d+\.x{n}.*" for n in range(32)]
    yield "expressions that go back", [f"re:.*a.*b{n}[x]" for n in range(32)]
    yield "expressions that explode", ["re:(a+)+$", "re:(a|a)*b", r"re:(\w+\s?)*$"]
    yield "a layer's number of many digits", [f"model.layers.{'9' * 5000}.mlp.gate"]
    yield "long names", ["x" * 100_000 + str(n) for n in range(100)]
    yield "no texts", [[n] for n in range(MOST_PATTERNS)]  # type: ignore[misc]


def _each_module() -> dict[str, Any]:
    how = ("FP8", "NVFP4", "W4A16_NVFP4")
    names = [f"model.layers.{n}.self_attn.{p}_proj" for n in range(MOST_LAYERS) for p in "qkvo"] + [
        f"model.layers.{n}.mlp.experts.0.{p}_proj" for n in range(MOST_LAYERS) for p in "gud"
    ]
    return {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            name: {"quant_algo": how[at % len(how)]} for at, name in enumerate(names)
        },
    }


def _nested(inner: Any, depth: int) -> Any:
    for _ in range(depth):
        inner = [inner] if isinstance(inner, list) else {"rope_type": inner}
    return inner


def _deeper(config: dict[str, Any]) -> dict[str, Any]:
    """The config with as many layers as are read, its lists by layer repeated."""
    text = config.get("text_config") or config
    layers = text.get("num_hidden_layers") or 1
    longer = {
        key: (value * MOST_LAYERS)[:MOST_LAYERS]
        if isinstance(value, list | str) and len(value) == layers
        else value
        for key, value in text.items()
    } | {"num_hidden_layers": MOST_LAYERS}
    return longer if text is config else config | {"text_config": longer}


def _real_configs() -> list[tuple[str, str]]:
    """Names and texts: what is decoded for each use cannot be broken by another one."""
    return [
        (path.parent.name, path.read_text(encoding="utf-8"))
        for path in sorted(FOLDER.glob("*/config.json"))
        if path.stat().st_size <= LARGEST_REAL
    ]


Real = list[tuple[str, str]]


def _mutated(chance: Random, real: Real) -> Hostile:
    name, text = chance.choice(real)
    config = json.loads(text)
    done = [_break(chance, config) for _ in range(chance.randint(1, 4))]
    return Hostile(f"{name}: {'; '.join(done)}", config)


def _break(chance: Random, value: Any) -> str:
    """Change one thing somewhere in the value; returns what."""
    where: list[str] = []
    while True:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        if not keys:
            return "nothing"
        key = chance.choice(keys)
        where.append(str(key))
        inner = value[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.7:  # noqa: PLR2004 - mostly
            value = inner
            continue
        return f"{'.'.join(where)} {_change(chance, value, key)}"


def _change(chance: Random, holder: Any, key: Any) -> str:
    old = holder[key]
    way = chance.randrange(6)
    if way == 0:
        del holder[key]
        return "taken away"
    if way == 1 and isinstance(old, int | float):
        holder[key] = chance.choice((str(old), -old, old * 1000, 0.5, 0, [old], {"v": old}))
    elif way == 2 and isinstance(old, list):  # noqa: PLR2004 - a way
        holder[key] = chance.choice((old * 50, old[:-1], [*old, old], old[0] if old else None))
    elif way == 3:  # noqa: PLR2004 - a way
        holder[key] = chance.randint(-(1 << 40), 1 << 40)
    else:
        holder[key] = _junk(chance)
    return f"= {repr(holder[key])[:60] if not isinstance(holder[key], int) else 'a number'}"


def _junk(chance: Random) -> Any:
    """A copy, since what it is put into may be broken in turn."""
    return copy.deepcopy(chance.choice(JUNK))


def _other_architecture(chance: Random, real: Real) -> Hostile:
    name, text = chance.choice(real)
    config = json.loads(text)
    label = chance.choice(sorted(ARCHITECTURES))
    config["architectures"] = [label]
    done = [_break(chance, config) for _ in range(chance.randint(0, 2))]
    return Hostile(f"{name} as {label}: {'; '.join(done)}", config)


_QUANTISATION_KEYS = (
    "quant_method", "quant_algo", "bits", "group_size", "sym", "zero_point", "desc_act", "format",
    "config_groups", "ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules",
    "quantized_layers", "kv_cache_quant_algo", "kv_cache_scheme", "weight_block_size", "dynamic",
    "load_in_4bit", "load_in_8bit", "llm_int8_skip_modules", "extra_config", "quantization",
    "activation_scheme", "bnb_4bit_quant_storage",
)  # fmt: skip


def _quantised(chance: Random, real: Real) -> Hostile:
    name, text = chance.choice(real)
    config = json.loads(text)
    own = config.get("quantization_config") or json.loads(chance.choice(real)[1]).get(
        "quantization_config"
    )
    junk = dict(own) if isinstance(own, dict) and chance.randrange(2) else {}
    for _ in range(chance.randint(1, 5)):
        junk[chance.choice(_QUANTISATION_KEYS)] = _junk(chance)
    if chance.randrange(4):
        junk["quant_method"] = chance.choice(METHODS)
    if junk and chance.randrange(2):
        _break(chance, junk)
    beside = chance.randrange(4) == 0
    if beside:
        config.pop("quantization_config", None)
        file = {"producer": {"name": "modelopt"}, "quantization": junk}
        return Hostile(f"{name} beside {str(junk)[:80]}", config, file)
    config["quantization_config"] = junk if chance.randrange(8) else _junk(chance)
    return Hostile(f"{name} with quantisation {_short(config['quantization_config'])}", config)


def _of_junk(chance: Random, real: Real) -> Hostile:
    keys = list(json.loads(chance.choice(real)[1]))
    config = {key: _junk(chance) for key in keys if chance.randrange(3)}
    config["architectures"] = [chance.choice(sorted(ARCHITECTURES))]
    if chance.randrange(3) == 0:
        config = {"text_config": config, "architectures": config["architectures"]}
    return Hostile("junk under real keys", config)


def _no_object(chance: Random, real: Real) -> Hostile:
    if chance.randrange(3):
        config = json.loads(chance.choice(real)[1])
        config[chance.choice(("architectures", "text_config", "vision_config"))] = _junk(chance)
        return Hostile("a wrong part", config)
    return Hostile("no object", _junk(chance), _junk(chance))


def _short(value: Any) -> str:
    return f"a {type(value).__name__}" if isinstance(value, int | list) else str(value)[:80]
