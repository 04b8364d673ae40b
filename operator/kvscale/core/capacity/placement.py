"""Where the layers and weights of a model lie: pipeline stages and tensor-parallel ranks."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from kvscale.core.engines.config import EngineConfig
from kvscale.core.model.fields import Refused
from kvscale.core.model.shape import LayerGroup, LayerKind, ModelShape, WeightGroup
from kvscale.core.trace import Step

MOST_DEVICES = 1 << 16


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage: the layers [first, last) of the model."""

    first: int
    last: int
    is_first: bool
    is_last: bool

    @property
    def layers(self) -> int:
        """Layers of the stage."""
        return self.last - self.first


@lru_cache(maxsize=256)
def stages(layers: int, pipeline_parallel: int) -> tuple[Stage, ...]:
    """The stages in order: equal shares, the remainder from the last but one backwards.

    Source: vllm v0.33.0 distributed/utils.py, get_pp_indices (without
    VLLM_PP_LAYER_PARTITION).

    Args:
        layers: of the model; at least `pipeline_parallel`.
        pipeline_parallel: number of stages, positive.
    """
    sizes = [layers // pipeline_parallel] * pipeline_parallel
    for back in range(2, layers % pipeline_parallel + 2):
        sizes[-back] += 1
    starts = [sum(sizes[:index]) for index in range(pipeline_parallel)]
    return tuple(
        Stage(start, start + size, index == 0, index == pipeline_parallel - 1)
        for index, (start, size) in enumerate(zip(starts, sizes, strict=True))
    )


def stage_groups(shape: ModelShape, stage: Stage) -> tuple[LayerGroup, ...]:
    """The layers of a stage, by group; where their places are not known, by their share."""
    found = []
    for group in shape.layer_groups:
        if group.positions:
            # Layers of a draft come after the model's own, on the last stage.
            here = tuple(
                at
                for at in group.positions
                if stage.first <= at < stage.last or (stage.is_last and at >= shape.layers)
            )
            count = len(here)
        else:
            here, count = (), -(-group.layers * stage.layers // shape.layers)
        if count:
            found.append(replace(group, layers=count, positions=here))
    return tuple(found)


def _held(group: WeightGroup, stage: Stage) -> bool:
    """Whether the stage holds a group that lies beside the layers."""
    if group.stage == "each":
        users = group.layer_positions
        return not users or any(stage.first <= layer < stage.last for layer in users)
    return (stage.is_first and group.stage in {"first", "ends"}) or (
        stage.is_last and group.stage in {"last", "ends"}
    )


def _on_stage(group: WeightGroup, layers: int, stage: Stage) -> tuple[int, int]:
    """The group's share on one stage of several, as a fraction (numerator, denominator)."""
    if group.stage != "all":
        return int(_held(group, stage)), 1
    if group.layer_positions:
        on = sum(stage.first <= layer < stage.last for layer in group.layer_positions)
        return on, len(group.layer_positions)
    start, end = group.layer_span or (0, layers)
    return max(0, min(end, stage.last) - max(start, stage.first)), end - start


def _finer_scales(group: WeightGroup, ways: int) -> int:
    """Thousandths of a bit per parameter of further scales, where a rank's share asks for them.

    Negative where the kernel that halves the groups keeps fewer zero points than it adds scales.
    Source: vllm v0.32.0 model_executor/layers/quantization/moe_wna16.py (`create_weights`).
    """
    if not group.units:
        return 0
    size = group.scale_group
    while size > 1 and group.units // ways % size:
        size //= 2
    if size == group.scale_group:
        return 0
    kept = group.scale_bits_milli - group.zero_bits_milli
    return (kept * (group.scale_group // size) - group.scale_bits_milli) // group.scale_group


def group_bytes(
    group: WeightGroup, layers: int, stage: Stage, tensor_parallel: int, data_parallel: int, *,
    whole_experts: bool = False,
) -> int:  # fmt: skip
    """Bytes of the group on one rank of the stage, rounded up.

    KV projections have no more shares than KV heads: beyond that, ranks repeat them. The experts
    of a mixture are also split over data parallelism (vllm v0.32.0 fused_moe/config.py,
    flatten_tp_across_dp). Where a kernel works on tiles, a rank's share of the split dimension is
    rounded up to them.

    Under expert parallelism a rank holds whole experts: the fullest one the ceiling of its share
    (vllm v0.32.0 fused_moe/expert_map_manager.py), and nothing of an expert is cut.
    """
    if whole_experts and group.experts:
        held = -(-group.experts // (tensor_parallel * data_parallel))
        uncut = replace(group, split_by_tensor_parallel=False, split_by_data_parallel=False)
        return -(-group_bytes(uncut, layers, stage, 1, 1) * held // group.experts)
    ways = tensor_parallel if group.split_by_tensor_parallel else 1
    if group.split_at_most is not None and group.split_at_most < ways:
        ways = group.split_at_most
    if group.split_by_data_parallel:
        ways *= data_parallel
    alone = stage.is_first and stage.is_last
    share, whole = (1, 1) if alone else _on_stage(group, layers, stage)
    each = group.bits_per_parameter_milli
    if group.scale_group:
        each += _finer_scales(group, ways)
    bits = group.parameters * each * share
    if group.units and group.unit_multiple > 1:
        tiles = -(-group.units // (ways * group.unit_multiple))
        return -(-bits * tiles * group.unit_multiple // (8_000 * whole * group.units))
    return -(-bits // (8_000 * whole * ways))


def weight_parts(
    groups: Iterable[WeightGroup], layers: int, stage: Stage, tensor_parallel: int,
    data_parallel: int, *, whole_experts: bool = False,
) -> dict[str, int]:  # fmt: skip
    """Bytes of the groups on one rank of the stage, by name; those that it does not hold left out.

    Args:
        groups: of the model.
        layers: of the model.
        stage: the pipeline stage.
        tensor_parallel: ranks that share each group; see `group_bytes`.
        data_parallel: the same of experts.
        whole_experts: experts are shared out whole (expert parallelism).
    """
    parts: dict[str, int] = {}
    for group in groups:
        size = group_bytes(
            group, layers, stage, tensor_parallel, data_parallel, whole_experts=whole_experts
        )
        if size:
            parts[group.name] = parts.get(group.name, 0) + size
    return parts


def weights_step(parts: dict[str, int], source: str = "") -> Step:
    """The weights of one rank, part by part."""
    return Step(
        "weightBytesPerDevice",
        sum(parts.values()),
        "bytes",
        "sum of the inputs; each part: parameters x bits / 8 / ranks that share them",
        tuple(parts.items()),
        source,
    )


def check_parallel(shape: ModelShape, engine: EngineConfig) -> None:
    """Pass an engine whose devices can share the model.

    Raises:
        Refused: a size that the engine would not start with.
    """
    for flag, value in (
        ("--tensor-parallel-size", engine.tensor_parallel),
        ("--pipeline-parallel-size", engine.pipeline_parallel),
        ("--data-parallel-size", engine.data_parallel),
        ("--decode-context-parallel-size", engine.decode_context_parallel),
    ):
        if not 1 <= value <= MOST_DEVICES:
            raise Refused(
                "InvalidParallelism", flag, f"{flag} is {value}; it must be from 1 to 65536"
            )
    tensor = engine.tensor_parallel
    check_heads(shape, tensor)
    if tensor % engine.decode_context_parallel:
        raise Refused(
            "InvalidParallelism",
            "--decode-context-parallel-size",
            f"--decode-context-parallel-size is {engine.decode_context_parallel}; it must divide "
            f"--tensor-parallel-size, which is {tensor}",
        )
    if engine.pipeline_parallel > shape.layers:
        raise Refused(
            "InvalidParallelism",
            "--pipeline-parallel-size",
            f"--pipeline-parallel-size is {engine.pipeline_parallel}; the model has only "
            f"{shape.layers} layers",
        )


def check_heads(shape: ModelShape, tensor: int, whose: str = "the model") -> None:
    """Pass a model whose heads that many ranks can share.

    Raises:
        Refused: they cannot.
    """
    if shape.attention_heads and shape.attention_heads % tensor:
        raise Refused(
            "InvalidParallelism",
            "--tensor-parallel-size",
            f"--tensor-parallel-size is {tensor}; it must divide {whose}'s "
            f"{shape.attention_heads} attention heads",
        )
    for group in shape.layer_groups:
        with_heads = group.kind.per_head or group.kind is LayerKind.CROSS_ATTENTION
        if with_heads and _uneven(group, tensor):
            raise Refused(
                "InvalidParallelism",
                "--tensor-parallel-size",
                f"--tensor-parallel-size is {tensor}; it must divide {whose}'s "
                f"{group.kv_heads} KV heads, or be a multiple of them",
            )


def _uneven(group: LayerGroup, tensor: int) -> bool:
    larger, smaller = max(group.kv_heads, tensor), min(group.kv_heads, tensor)
    return larger % smaller != 0
