"""`kvscale compare`: sorted by cost, what does not fit with its reason, mistakes in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvscale.app.compare_view import KEYS
from kvscale.cli.app import app
from kvscale.cli.output import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama-3.1-8b.yaml"

Kvscale = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Kvscale:
    def call(*arguments: str, file: Path = EXAMPLE) -> tuple[int, str, str]:
        code = run(app, ["compare", "-f", str(file), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def document(compare: Kvscale, *arguments: str, file: Path = EXAMPLE) -> dict[str, Any]:
    code, out, err = compare(*arguments, "-o", "json", file=file)
    assert (code, err) == (0, ""), err
    found = json.loads(out)
    assert tuple(found) == KEYS
    return dict(found)


def without_traffic(tmp_path: Path) -> Path:
    pool = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    del pool["spec"]["traffic"]
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(pool), encoding="utf-8")
    return file


def test_options_are_sorted_by_cost_and_what_does_not_fit_is_below(compare: Kvscale) -> None:
    found = document(compare, "--gpu", "T4,H100,L4", "--tensor-parallel", "1,2,3")
    costs = [one["perHour"] for one in found["options"]]
    assert costs == sorted(costs)
    assert None not in costs
    assert found["currency"] == "USD"
    unfit = {
        (one["gpu"], one["tensorParallel"]): one["refusal"]["reason"] for one in found["unfit"]
    }
    assert unfit[("Tesla-T4", 1)] == "ModelDoesNotFit"
    assert all(unfit[(gpu, 3)] == "InvalidParallelism" for gpu in ("Tesla-T4", "NVIDIA-L4"))
    assert len(found["options"]) + len(found["unfit"]) == 9


def test_an_option_says_what_a_plan_says(compare: Kvscale, capsys: Any) -> None:
    (option,) = document(compare, "--gpu", "L40S")["options"]
    run(app, ["plan", "-f", str(EXAMPLE), "--gpu", "L40S", "-o", "json"])
    plan = json.loads(capsys.readouterr().out)
    assert option["replicas"] == plan["floor"]["atMean"]
    assert option["replicasAtPeak"] == plan["floor"]["atPeak"]
    rate = plan["cost"]["rates"][0]
    assert option["perHour"] == rate["perHour"]
    assert option["perMillionOutputTokens"] == rate["perMillionOutputTokens"]
    assert option["devices"] == option["replicas"] * option["devicesPerReplica"]


def test_given_prices_decide_the_order(compare: Kvscale) -> None:
    order = [
        [one["gpu"] for one in document(compare, "--gpu", "L4,H100", *prices)["options"]]
        for prices in (
            ("--price", "L4=1", "--price", "H100=100"),
            ("--price", "L4=100", "--price", "H100=1"),
        )
    ]
    assert order[0] == order[1][::-1]


def test_the_pool_s_price_is_of_the_product_that_it_names(compare: Kvscale, tmp_path: Path) -> None:
    def sources(file: Path) -> dict[str, str]:
        found = document(compare, "--gpu", "L4,L40S", file=file)["options"]
        return {one["gpu"]: one["price"]["source"].partition(" ")[0] for one in found}

    assert sources(EXAMPLE) == {"NVIDIA-L4": "spec.targets[0].cost", "NVIDIA-L40S": "list"}
    pool = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    del pool["spec"]["targets"][0]["devices"]["product"]
    file = tmp_path / "pool.yaml"
    file.write_text(yaml.safe_dump(pool), encoding="utf-8")
    assert sources(file) == {"NVIDIA-L4": "list", "NVIDIA-L40S": "list"}


def test_without_a_price_the_cost_is_absent_and_devices_decide(compare: Kvscale) -> None:
    found = document(compare, "--gpu", "RTX-3090,RTX-4090,RTX-5090")
    assert found["currency"] is None
    assert all(one["perHour"] is None for one in found["options"])
    devices = [one["devices"] for one in found["options"]]
    assert devices == sorted(devices)
    mixed = document(compare, "--gpu", "RTX-5090,H100")["options"]
    assert [one["perHour"] is None for one in mixed] == [False, True]


def test_more_memory_per_element_never_holds_more(compare: Kvscale) -> None:
    found = document(compare, "--gpu", "H100", "--kv-cache-dtype", "auto,fp8")["options"]
    held = {one["kvCacheDtype"]: one["sequencesPerReplica"]["expected"] for one in found}
    assert held["fp8"] >= 2 * held["auto"] - 1


def test_without_traffic_there_are_no_replicas_and_one_replica_is_priced(
    compare: Kvscale, tmp_path: Path
) -> None:
    found = document(compare, "--gpu", "L4,H100", file=without_traffic(tmp_path))
    for one in found["options"]:
        assert one["replicas"] is None
        assert one["devices"] == one["devicesPerReplica"]
        assert one["length"] == "max"
        assert one["perHour"] > 0
    assert (found["rate"], found["costAt"]) == (None, "ceiling")
    costs = [one["perMillionOutputTokens"] for one in found["options"]]
    assert costs == sorted(costs)


def changed_pool(tmp_path: Path, **engine: Any) -> Path:
    """The example with another engine and no price of its own."""
    pool = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    target = pool["spec"]["targets"][0]
    target["engine"] = {**target.get("engine", {}), **engine}
    target.pop("cost", None)
    file = tmp_path / "changed.yaml"
    file.write_text(yaml.safe_dump(pool), encoding="utf-8")
    return file


def test_what_may_not_fit_is_not_ranked(compare: Kvscale, tmp_path: Path) -> None:
    # The expected memory of one L4 holds 32k tokens of this model, the least that it may have not.
    file = changed_pool(tmp_path, maxModelLen=32_768)
    found = document(compare, "--gpu", "L4,H100", "--tensor-parallel", "1,2", file=file)
    (doubtful,) = found["mayNotFit"]
    assert (doubtful["gpu"], doubtful["tensorParallel"]) == ("NVIDIA-L4", 1)
    assert doubtful["refusal"]["reason"] == "MayNotFit"
    assert len(found["options"]) == 3
    picture = tmp_path / "compare.svg"
    code, out, _ = compare("--gpu", "L4,H100", "--plot", str(picture), file=file)
    assert code == 0
    above, _, below = out.partition("What may not fit: not ranked")
    assert "- L4: a request of the maximum length, 32,768 tokens" in below
    assert "\nL4" not in above
    assert ">L4<" not in picture.read_text(encoding="utf-8")


def test_all_costs_of_a_column_are_of_one_rate(compare: Kvscale, tmp_path: Path) -> None:
    file = changed_pool(tmp_path, maxModelLen=8192)
    found = document(compare, "--gpu", "L4,L40S,H100", "--tensor-parallel", "1,2", file=file)
    assert (found["rate"], found["costAt"]) == ("mean", "meanRate")
    for one in found["options"]:
        assert one["replicas"] is not None
        assert one["perHourAtPeak"] >= one["perHour"]
    _, page, _ = compare("--gpu", "L4,H100", file=file)
    assert "USD/million, mean" in page
    _, page, _ = compare("--gpu", "L4,H100", file=without_traffic(tmp_path))
    assert "USD/million, ceiling" in page
    assert "replicas" not in page


def test_lengths_without_a_rate_are_not_called_no_traffic(compare: Kvscale, tmp_path: Path) -> None:
    pool = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    del pool["spec"]["traffic"]["requestsPerMinute"]
    file = tmp_path / "lengths.yaml"
    file.write_text(yaml.safe_dump(pool), encoding="utf-8")
    _, page, _ = compare("--gpu", "L4,H100", file=file)
    assert "spec.traffic.requestsPerMinute is not declared" in page
    assert "no traffic" not in page


def test_what_no_device_mends_is_one_error(compare: Kvscale, tmp_path: Path) -> None:
    for dtypes in ("fp9", "auto,fp9"):
        code, out, err = compare("--gpu", "L4,H100,H200", "--kv-cache-dtype", dtypes)
        assert (code, out) == (2, "")
        assert err.count("fp9") == err.count("\n") == 1
    pool = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    pool["spec"]["model"] = {"preset": "nobody/knows"}
    file = tmp_path / "unknown.yaml"
    file.write_text(yaml.safe_dump(pool), encoding="utf-8")
    code, out, err = compare("--gpu", "L4,H100", file=file)
    assert (code, out) == (2, "")
    assert err.count("nobody/knows") == err.count("\n") == 1


def test_the_page_fits_the_terminal(compare: Kvscale) -> None:
    code, out, err = compare(
        "--gpu", "all", "--tensor-parallel", "1,2", "--kv-cache-dtype", "fp8,auto"
    )
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 100
    assert out.isascii()
    assert "What does not fit" in out
    assert "sorted by" in out
    assert "has no fp8 arithmetic: check that the engine starts" in out


def test_nothing_that_fits_is_said(compare: Kvscale) -> None:
    code, out, _ = compare("--gpu", "T4")
    assert code == 0
    assert "nothing fits" in out


def test_a_picture_is_the_same_every_time(compare: Kvscale, tmp_path: Path) -> None:
    pictures = [tmp_path / name for name in ("a.svg", "b.svg")]
    for picture in pictures:
        code, _, _ = compare("--gpu", "L4,H100,RTX-5090", "--plot", str(picture))
        assert code == 0
    first, second = (picture.read_text(encoding="utf-8") for picture in pictures)
    assert first == second
    assert "USD per hour" in first
    assert "peak rate" in first
    assert "no price" in first
    nothing = tmp_path / "nothing.svg"
    assert compare("--gpu", "T4", "--plot", str(nothing))[0] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--gpu"),
        (("--gpu", ""), "--gpu is empty"),
        (("--gpu", " , "), "--gpu is empty"),
        (("--gpu", "L4,nothing"), "--gpu"),
        (("--gpu", "H10"), "NVIDIA-H100"),
        (("--gpu", "L40X"), "NVIDIA-L40S"),
        (("--gpu", "A100"), "NVIDIA-A100-SXM4-80GB"),
        (("--gpu", "L4", "--tensor-parallel", "1,x"), "'x' is no number of devices"),
        (("--gpu", "L4", "--tensor-parallel", "0"), "'0' is no number of devices"),
        (("--gpu", "L4", "--tensor-parallel", "-1"), "--tensor-parallel"),
        (("--gpu", "L4", "--tensor-parallel", "99999999999999999999"), "no number of devices"),
        (("--gpu", "L4", "--tensor-parallel", ","), "--tensor-parallel is empty"),
        (("--gpu", "L4", "--kv-cache-dtype", "auto,FP 8"), "is no dtype"),
        (("--gpu", "L4", "--plot", "x.gif"), "--plot"),
        (("--gpu", "all", "--tensor-parallel", ",".join(map(str, range(1, 99)))), "too many"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(
    compare: Kvscale, arguments: tuple[str, ...], named: str
) -> None:
    code, out, err = compare(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("kvscale: ")
    assert err.count("\n") == 1
    assert named in err
