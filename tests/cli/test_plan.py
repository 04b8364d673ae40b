"""`kvscale plan`: a pool sized from files alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.app.plan_document import KEYS
from kvscale.cli.app import app
from kvscale.cli.output import run

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).parent / "golden"

POOL = """
apiVersion: kvscale.io/v1alpha1
kind: InferencePool
metadata: {name: llama}
spec:
  model: {preset: meta-llama/Llama-3.1-8B-Instruct}
  targets:
  - ref: {name: llama}
    engine:
      version: "0.32"
      maxModelLen: 8192
      maxNumSeqs: 64
      maxNumBatchedTokens: 2048
      kvCacheMemoryBytes: 4294967296
    devices: {product: NVIDIA-L4}
  traffic:
    requestsPerMinute: {mean: 60, peak: 180}
    promptTokens: {mean: 900, p50: 600, p90: 2100, p95: 3300, p99: 5800}
    outputTokens: {mean: 220, p50: 160, p90: 480, p95: 640, p99: 1400}
  scaling: {maxReplicas: 5}
"""
SMALLEST = """
apiVersion: kvscale.io/v1alpha1
kind: InferencePool
metadata: {name: llama}
spec:
  targets: [{ref: {name: llama}}]
"""

Kvscale = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kvscale(capsys: pytest.CaptureFixture[str]) -> Kvscale:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(app, ["plan", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    file = tmp_path / "pool.yaml"
    file.write_text(POOL, encoding="utf-8")
    return file


def document(kvscale: Kvscale, *arguments: str) -> dict[str, Any]:
    code, out, err = kvscale(*arguments, "-o", "json")
    assert (code, err) == (0, ""), err
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def mistake(kvscale: Kvscale, *arguments: str) -> str:
    code, out, err = kvscale(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("kvscale: ")
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()
    return err


def test_the_document_is_a_contract(kvscale: Kvscale, pool: Path) -> None:
    found = document(kvscale, "-f", str(pool))
    assert tuple(found) == KEYS
    trace = found.pop("trace")
    # What other parts say of the weights and in their assumptions is tested there.
    found["capacity"].pop("weightBytesPerDevice")
    found.pop("assumptions")
    levers = found.pop("levers") + found.pop("dearLevers")
    assert found == json.loads((GOLDEN / "plan.json").read_text(encoding="utf-8"))
    assert {
        "kvBlocks",
        "sequencesPaged",
        "footprintBlocks",
        "residenceSeconds",
        "floorAtPeak",
        "costCeiling",
    } <= {step["name"] for step in trace}
    assert levers
    standing = {
        "devicesPerEngine",
        "sequencesPerDevice",
        "tokensPerDevice",
        "perMillionOutputTokens",
    }
    for lever in levers:
        assert set(lever) == {"name", "change", "caveat", "gain", "before", "after"}
        assert set(lever["before"]) == set(lever["after"]) == standing


def test_the_page_is_what_people_were_shown_before(kvscale: Kvscale, pool: Path) -> None:
    code, out, err = kvscale("-f", str(pool))
    assert (code, err) == (0, "")
    shown = out[: out.index("\nWhat to change instead of scaling\n")]
    shown = "".join(line for line in shown.splitlines(True) if not line.startswith("weights"))
    assert shown == (GOLDEN / "plan.txt").read_text(encoding="utf-8")
    assert max(len(line) for line in out.splitlines()) <= 100
    assert "\x1b" not in out


def test_yaml_and_json_are_the_same_document(kvscale: Kvscale, pool: Path) -> None:
    _, out, _ = kvscale("-f", str(pool), "-o", "yaml")
    assert yaml.safe_load(out) == document(kvscale, "-f", str(pool))


def test_the_full_example_is_planned_without_a_cluster(kvscale: Kvscale) -> None:
    found = document(kvscale, "-f", str(EXAMPLES / "llama-3.1-8b.yaml"))
    assert found["device"]["product"] == "NVIDIA-L4"
    assert 1 <= found["floor"]["atMean"] <= found["floor"]["atPeak"]
    assert found["headroom"]["expected"] > 0


def test_the_page_that_the_readme_shows_is_the_one_that_is_printed(kvscale: Kvscale) -> None:
    """Line by line; "..." stands for what is left out."""
    shown = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    block = shown.split("plan -f examples/llama-3.1-8b.yaml\n```\n```\n")[1].split("\n```")[0]
    code, out, _ = kvscale("-f", str(EXAMPLES / "llama-3.1-8b.yaml"))
    assert code == 0
    printed = out.splitlines()
    lines = [line for line in block.splitlines() if line != "..."]
    assert len(lines) > 8
    assert [line for line in lines if line not in printed] == []


def test_the_server_s_arguments_are_read_from_a_manifest(kvscale: Kvscale) -> None:
    found = document(
        kvscale,
        "-f", str(EXAMPLES / "smallest.yaml"),
        "--manifest", str(EXAMPLES / "vllm-llama-3.1-8b-l4.yaml"),
        "--gpu", "L4",
    )  # fmt: skip
    assert found["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert found["engine"]["maxModelLen"] == 8192
    assert found["engine"]["maxNumSeqs"] == 64
    assert found["floorUnknown"]["reason"] == "TrafficNotDeclared"


def test_the_workload_may_stand_in_the_same_file(kvscale: Kvscale, tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    manifest = (EXAMPLES / "vllm-llama-3.1-8b-l4.yaml").read_text(encoding="utf-8")
    file.write_text(f"{SMALLEST}---\n{manifest}", encoding="utf-8")
    assert document(kvscale, "-f", str(file), "--gpu", "L4")["engine"]["maxModelLen"] == 8192


def test_a_config_map_in_the_file_names_the_model(kvscale: Kvscale) -> None:
    found = document(
        kvscale, "-f", str(EXAMPLES / "model-from-configmap.yaml"), "--gpu", "NVIDIA-H100-80GB-HBM3"
    )
    assert found["engine"]["maxModelLen"] == 40_960


def test_a_list_of_objects_is_unfolded(kvscale: Kvscale, tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    wrapped = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(POOL)]}
    file.write_text(json.dumps(wrapped), encoding="utf-8")
    assert document(kvscale, "-f", str(file))["pool"] == "llama"


def test_a_refusal_is_one_line_and_for_scripts_an_object(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(POOL.replace("8B-Instruct", "70B-Instruct"), encoding="utf-8")
    assert "weights" in mistake(kvscale, "-f", str(pool))
    code, out, err = kvscale("-f", str(pool), "-o", "json")
    found = json.loads(out)
    assert code == 2
    assert err.count("\n") == 1
    assert tuple(found) == KEYS
    assert found["refusal"]["reason"] == "ModelDoesNotFit"
    assert found["floor"] is None


def changed(old: str, new: str) -> str:
    assert old in POOL
    return POOL.replace(old, new)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (SMALLEST, "--manifest"),
        (changed("    devices: {product: NVIDIA-L4}\n", ""), "--gpu"),
        (changed("maxReplicas: 5", "maxReplicas: -5"), "spec.scaling.maxReplicas"),
        (changed("p95: 3300", "p95: 30"), "promptTokens"),
        (changed("kind: InferencePool", "kind: Deployment"), "InferencePool"),
        (changed("kvscale.io/v1alpha1", "inference.networking.k8s.io/v1"), "kvscale.io"),
        (f"{POOL}---{POOL}", "2 objects of kind InferencePool"),
        ("kind: InferencePool\napiVersion: kvscale.io/v1alpha1\n", "spec"),
        ("", "is empty"),
        ("---\n---\n", "is empty"),
        ("just text", "no Kubernetes object"),
        ("- 1\n- 2\n", "no Kubernetes object"),
        ("a: [1, 2", "not YAML"),
        ("a: &a [1]\nb: [*a, *a]\n", "aliases"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
        ("[" * 300, "nested too deeply"),
        ("[" * 20_000, "not YAML"),
        ("kind: InferencePool\nspec: 2024-99-99\n", "not YAML"),
        ("# " + "x" * (1 << 20), "larger than 1 MiB"),
        ("kind: \x1b[31m\n", "not YAML"),
    ],
    ids=lambda value: value[:12].strip() if isinstance(value, str) else "",
)
def test_a_wrong_file_is_one_line_that_says_what_is_needed(
    kvscale: Kvscale, tmp_path: Path, text: str, named: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text, encoding="utf-8")
    assert named in mistake(kvscale, "-f", str(file))


def test_a_file_that_is_not_there_or_not_text_is_named(kvscale: Kvscale, tmp_path: Path) -> None:
    assert "No such file" in mistake(kvscale, "-f", str(tmp_path / "absent.yaml"))
    assert "cannot be read" in mistake(kvscale, "-f", str(tmp_path))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in mistake(kvscale, "-f", str(binary))


def test_a_manifest_without_the_target_is_named(kvscale: Kvscale, pool: Path) -> None:
    line = mistake(kvscale, "-f", str(pool), "--manifest", str(pool))
    assert "--manifest" in line
    assert "Deployment 'llama'" in line


def test_a_wrong_gpu_is_named_before_anything_else(kvscale: Kvscale, pool: Path) -> None:
    assert "--gpu" in mistake(kvscale, "-f", str(pool), "--gpu", "no-such-card")


PRICED = changed(
    "    devices: {product: NVIDIA-L4}\n",
    '    devices: {product: NVIDIA-L4}\n    cost: {perDeviceHour: "0.5", currency: EUR}\n',
)


def test_the_pool_s_own_price_counts_with_its_currency(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(PRICED, encoding="utf-8")
    cost = document(kvscale, "-f", str(pool))["cost"]
    assert cost["currency"] == "EUR"
    assert cost["perDeviceHour"] == 0.5
    assert cost["price"] == {"source": "spec.targets[0].cost", "asOf": None}
    assert [one["rate"] for one in cost["rates"]] == ["mean", "peak"]


def test_a_price_of_another_device_is_not_the_pool_s(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(PRICED, encoding="utf-8")
    found = document(kvscale, "-f", str(pool), "--gpu", "L40S")
    # The pool's price is of an L4, and list prices are in another currency than the pool's.
    assert found["cost"] is None
    assert found["costUnknown"]["reason"] == "PriceUnknown"


def test_a_given_price_wins_over_all_others(kvscale: Kvscale, pool: Path, tmp_path: Path) -> None:
    pool.write_text(PRICED, encoding="utf-8")
    prices = tmp_path / "prices.yaml"
    prices.write_text("L4: 3\nH100: 2.5\n", encoding="utf-8")
    found = document(kvscale, "-f", str(pool), "--prices", str(prices))
    assert found["cost"]["perDeviceHour"] == 3.0
    found = document(kvscale, "-f", str(pool), "--prices", str(prices), "--price", "nvidia-l4=1.25")
    assert found["cost"]["perDeviceHour"] == 1.25
    assert found["cost"]["currency"] == "EUR"


def test_without_a_price_the_cost_is_absent(kvscale: Kvscale, pool: Path) -> None:
    found = document(kvscale, "-f", str(pool), "--gpu", "RTX-4090")
    assert found["cost"] is None
    assert all(lever["after"]["perMillionOutputTokens"] is None for lever in found["levers"])
    code, out, _ = kvscale("-f", str(pool), "--gpu", "RTX-4090")
    assert code == 0
    assert "no price of NVIDIA-GeForce-RTX-4090 is known" in out


def test_more_devices_have_the_price_of_a_machine_that_holds_them(
    kvscale: Kvscale, pool: Path
) -> None:
    pool.write_text(changed("      kvCacheMemoryBytes: 4294967296\n", ""), encoding="utf-8")
    found = document(kvscale, "-f", str(pool))
    moves = {one["change"]: one for one in found["cost"]["moves"]}
    doubled = moves["tensor parallelism doubled"]
    assert doubled["note"] == "1.1504 USD per device and hour"
    looked_at = {one["change"]: one for one in found["levers"] + found["dearLevers"]}
    lever = looked_at["--tensor-parallel-size 2"]
    assert lever["after"]["perMillionOutputTokens"] == doubled["perMillionOutputTokens"]
    assert "at 1.1504 USD" in lever["caveat"]
    # A stated price is that of every device of the pool.
    same = document(kvscale, "-f", str(pool), "--price", "L4=0.8")
    assert all(one["note"] == "" for one in same["cost"]["moves"])
    wider = [one for one in same["levers"] if one["change"] == "--tensor-parallel-size 2"]
    assert [one["caveat"] for one in wider] == ["an engine takes 2 devices"]


def test_what_costs_more_than_it_brings_is_said(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(changed("      kvCacheMemoryBytes: 4294967296\n", ""), encoding="utf-8")
    _, page, _ = kvscale("-f", str(pool))
    found = document(kvscale, "-f", str(pool))
    assert found["dearLevers"]
    for lever in found["dearLevers"]:
        before, after = lever["before"], lever["after"]
        assert after["sequencesPerDevice"] > before["sequencesPerDevice"]
        assert after["perMillionOutputTokens"] > before["perMillionOutputTokens"]
    assert "at a higher cost per token" in page
    assert "USD/million (ceiling)" in page


def test_levers_have_short_names_and_their_flags_below(kvscale: Kvscale, tmp_path: Path) -> None:
    file = tmp_path / "latent.yaml"
    text = POOL.replace("meta-llama/Llama-3.1-8B-Instruct", "deepseek-ai/DeepSeek-V3")
    engine = text.replace("      kvCacheMemoryBytes: 4294967296\n", "      tensorParallel: 8\n")
    file.write_text(engine.replace("NVIDIA-L4", "NVIDIA-H200"), encoding="utf-8")
    _, page, _ = kvscale("-f", str(file))
    rows = page[page.index("What to change instead of scaling") :].splitlines()
    assert rows[1].startswith("change ")
    assert any(row.startswith("data parallel 8, tensor 1  ") and "->" in row for row in rows)
    assert "--tensor-parallel-size 1 --data-parallel-size 8" in page
    assert max(len(row) for row in rows) <= 100


def test_a_small_pool_is_told_of_in_plain_numbers(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(changed("{mean: 60, peak: 180}", "{mean: 1, peak: 2}"), encoding="utf-8")
    _, page, _ = kvscale("-f", str(pool))
    assert "of the time with 1, one less is none" in page
    pool.write_text(changed("{mean: 60, peak: 180}", "{mean: 1, peak: 9000}"), encoding="utf-8")
    _, page, _ = kvscale("-f", str(pool))
    assert "e+0" not in page[: page.index("\nHow\n")]
    pool.write_text(changed("maxNumSeqs: 64", "tensorParallel: 2"), encoding="utf-8")
    _, page, _ = kvscale("-f", str(pool))
    assert "1 engine of tensor 2" in page


def test_the_ceiling_shows_what_runs(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(changed("maxNumSeqs: 64", "maxNumSeqs: 10"), encoding="utf-8")
    found = {one["length"]: one for one in document(kvscale, "-f", str(pool))["ceilings"]}
    assert found["p50"]["perReplica"]["expected"] > 10
    assert found["p50"]["runPerReplica"] == 10
    assert found["max"]["runPerReplica"] == found["max"]["perReplica"]["expected"] < 10


def test_both_planning_modes_stand_side_by_side(kvscale: Kvscale, pool: Path) -> None:
    planning = document(kvscale, "-f", str(pool))["planning"]
    assert planning["mode"] == "Percentile"
    assert set(planning["modes"]) == {"Percentile", "OverflowProbability"}
    overflow = planning["modes"]["OverflowProbability"]["overflow"]
    for name in ("mean", "peak"):
        assert overflow[name]["probability"] <= 0.001 < overflow[name]["probabilityOfOneLess"]
    assert 0 < overflow["tailShareOfCache"] < 1


def test_the_mode_in_effect_sizes_the_pool(kvscale: Kvscale, pool: Path) -> None:
    planning = "  planning: {mode: OverflowProbability, overflowPerMillion: 100000}\n"
    pool.write_text(POOL.rstrip() + "\n" + planning, encoding="utf-8")
    found = document(kvscale, "-f", str(pool))
    chosen = found["planning"]["modes"]["OverflowProbability"]
    assert found["floor"]["atPeak"] == chosen["atPeak"]
    _, out, _ = kvscale("-f", str(pool))
    assert "OverflowProbability, 100,000 in a million (in effect)" in out
    assert max(len(line) for line in out.splitlines()) <= 100


TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation.csv"


def test_a_trace_stands_in_for_the_percentiles(
    kvscale: Kvscale, pool: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("prompt,output\n" + "500,100\n" * 1000, encoding="utf-8")
    found = document(kvscale, "-f", str(pool), "--trace", str(trace))
    assert found["floor"]["footprintTokens"] == 600
    assert found["floor"]["atPeak"] < document(kvscale, "-f", str(pool))["floor"]["atPeak"]
    assert any("1000 requests of a trace" in line for line in found["assumptions"])
    found = document(kvscale, "-f", str(pool), "--trace", str(TRACE))
    assert any("of the trace's prompts are longer" in line for line in found["warnings"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prompt,output\n1,x\n", "line 2: output is 'x'"),
        ("a,b\n1,2\n", "no column is known as the prompt length"),
        ("", "it holds no request"),
    ],
)
def test_what_is_no_trace_is_named(
    kvscale: Kvscale, pool: Path, tmp_path: Path, text: str, told: str
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text, encoding="utf-8")
    code, out, err = kvscale("-f", str(pool), "--trace", str(trace))
    assert code != 0
    assert out == ""
    assert err.startswith("kvscale: --trace: ")
    assert told in err
    assert err.count("\n") == 1
    code, _, err = kvscale("-f", str(pool), "--trace", str(tmp_path / "none.csv"))
    assert code != 0
    assert "--trace" in err


def test_a_shared_prefix_is_a_fourth_policy(kvscale: Kvscale, pool: Path) -> None:
    pool.write_text(
        changed("  scaling:", "    sharedPrefix: {tokens: 400, distinct: 2}\n  scaling:"),
        encoding="utf-8",
    )
    found = document(kvscale, "-f", str(pool))["policies"]
    assert found["sharedPrefixTokens"] == 400
    assert [one["policy"] for one in found["allocations"]] == [
        "Contiguous",
        "ContiguousFragmented",
        "Paged",
        "PagedSharedPrefix",
    ]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--price", "L4"), "--price"),
        (("--price", "L4=0"), "the price of L4"),
        (("--price", "L4=-1"), "the price of L4"),
        (("--price", "L4=nan"), "the price of L4"),
        (("--price", "L4=much"), "the price of L4"),
        (("--price", "L5=1"), "--price"),
        (("--prices", "/nonexistent.yaml"), "--prices"),
        (("--plot", "picture.pdf"), "--plot"),
        (("--plot", "picture"), "--plot"),
        (("--plot", "/nonexistent/picture.svg"), "--plot"),
    ],
)
def test_a_wrong_option_is_named(
    kvscale: Kvscale, pool: Path, arguments: tuple[str, ...], named: str
) -> None:
    code, _, err = kvscale("-f", str(pool), *arguments)
    assert code == 2
    assert named in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "text", ["- 1\n", "L4: [1]\n", "L4: true\n", "1: 2\n", "L4: &a 1\nT4: *a\n"]
)
def test_a_wrong_file_of_prices_is_named(
    kvscale: Kvscale, pool: Path, tmp_path: Path, text: str
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(text, encoding="utf-8")
    assert "--prices" in mistake(kvscale, "-f", str(pool), "--prices", str(prices))


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_is_the_same_every_time(
    kvscale: Kvscale, pool: Path, tmp_path: Path, suffix: str
) -> None:
    pictures = [tmp_path / f"{name}.{suffix}" for name in "ab"]
    for picture in pictures:
        code, _, err = kvscale("-f", str(pool), "--plot", str(picture))
        assert code == 0
        assert str(picture) in err
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert len(first) > 10_000
    if suffix == "svg":
        text = first.decode()
        for words in ("Allocation policies", "requests per minute", "per million output tokens"):
            assert words in text
        assert "<dc:date>" not in text


def test_a_pool_without_traffic_or_price_has_a_picture_too(
    kvscale: Kvscale, pool: Path, tmp_path: Path
) -> None:
    pool.write_text(POOL[: POOL.index("  traffic:")], encoding="utf-8")
    picture = tmp_path / "plan.svg"
    code, _, _ = kvscale("-f", str(pool), "--gpu", "RTX-4090", "--plot", str(picture))
    assert code == 0
    assert "no traffic is declared" in picture.read_text(encoding="utf-8")


def test_a_picture_says_why_there_are_no_replicas(
    kvscale: Kvscale, pool: Path, tmp_path: Path
) -> None:
    pool.write_text(changed("    requestsPerMinute: {mean: 60, peak: 180}\n", ""), encoding="utf-8")
    picture = tmp_path / "plan.svg"
    assert kvscale("-f", str(pool), "--plot", str(picture))[0] == 0
    text = picture.read_text(encoding="utf-8")
    assert "spec.traffic.requestsPerMinute" in text
    assert "no traffic is declared" not in text


def test_a_picture_without_matplotlib_is_refused_before_any_work(
    kvscale: Kvscale, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvscale.cli.plot_file.find_spec", lambda _: None)
    assert "kvscale[plot]" in mistake(kvscale, "-f", str(pool), "--plot", "plan.svg")
