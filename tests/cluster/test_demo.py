"""What the demo plays and concludes; the whole of it is `make demo`."""

import json
from dataclasses import replace

from demo.picture import Timeline, draw
from demo.rounds import Round, write_decisions
from demo.screen import WIDTH, PlainScreen, Row
from demo.story import TURNS, Turn, rate, share, thin
from demo.summary import Moves, peak, shortcomings
from kvscale.sim.arrivals import Workload
from kvscale.sim.request import Request

QUIET = Round(
    at=0.0, id="a", current=1, ready=1, wanted=1, placeable=1, desired=1, write=None, bound="KV",
    reason="AsNeeded", message="", occupancy=0.2, running=4, waiting=0, preemptions=0,
)  # fmt: skip
OUT = replace(QUIET, at=60.0, id="b", wanted=4, desired=4, write=4, occupancy=0.97, waiting=9)
FULL = replace(OUT, at=120.0, id="c", current=4, ready=4, write=None, occupancy=0.7, preemptions=2)
BACK = replace(FULL, at=300.0, id="d", wanted=1, desired=1, write=1, reason="ScaleDownLimit")
DONE = replace(QUIET, at=360.0, id="e")
STORY = [QUIET, OUT, FULL, BACK, DONE]


def every_second(count: int) -> Workload:
    return Workload("test", tuple(Request(i, float(i), 10, 10) for i in range(count)), float(count))


def test_the_share_moves_in_straight_lines_and_stays_after_the_last_turn():
    turns = (Turn(0, 10), Turn(100, 30))
    assert [share(turns, at) for at in (0, 50, 100, 500)] == [10, 20, 30, 30]


def test_thinning_keeps_times_and_lengths_and_the_share_exactly():
    recorded = every_second(200)
    played = thin(recorded, (Turn(0, 25), Turn(100, 25)), "quarter")
    assert len(played.requests) == 25
    assert played.seconds == 100
    arrivals = {request.arrived_at for request in recorded.requests}
    assert all(request.arrived_at in arrivals for request in played.requests)
    assert [request.id for request in played.requests] == list(range(25))


def test_the_whole_of_the_traffic_is_every_request():
    assert len(thin(every_second(50), (Turn(0, 100), Turn(50, 100)), "all").requests) == 50


def test_the_rate_is_that_of_the_last_seconds():
    arrivals = [float(at) for at in range(100)]
    assert rate(arrivals, 50.0) == 1.0
    assert rate(arrivals, 500.0) == 0.0


def test_a_pool_that_went_out_under_pressure_and_came_back_is_the_whole_story():
    assert shortcomings(STORY) == []
    assert peak(STORY) == 4
    assert (len(Moves.of(STORY).out), len(Moves.of(STORY).back)) == (1, 1)


def test_every_missing_part_of_the_story_is_told():
    assert "never scaled out" in shortcomings([QUIET, DONE])[0]
    easy = [QUIET, replace(OUT, occupancy=0.5), FULL, BACK, DONE]
    assert "never scaled out" in shortcomings(easy)[0]
    other = [QUIET, replace(OUT, bound="Sequences"), FULL, BACK, DONE]
    assert "never scaled out" in shortcomings(other)[0]
    stayed = shortcomings([QUIET, OUT, FULL])
    assert "not scaled in" in stayed[0]
    assert "ended with 4 replicas" in stayed[1]


def test_a_decision_is_a_line_when_it_changes(tmp_path):
    path = tmp_path / "decisions.jsonl"
    assert write_decisions([QUIET, replace(QUIET, at=5.0), OUT], path) == 2
    last = json.loads(path.read_text().splitlines()[-1])
    assert (last["time"], last["from"], last["to"], last["bound"]) == (60.0, 1, 4, "KV")


def test_rows_stand_under_their_headings(capsys):
    with PlainScreen() as screen:
        screen.show(Row(OUT, 7.25, 3))
        screen.show(Row(replace(QUIET, occupancy=None, waiting=None, placeable=None), 0.0, 0))
    head, row, unknown = capsys.readouterr().out.splitlines()
    assert row.index("1 -> 4") == head.index("scaled")
    assert row.split()[:8] == ["1:00", "7.2", "4", "1", "1", "97%", "9", "3"]
    assert unknown.split()[3:7] == ["-", "1", "-", "-"]
    assert max(map(len, (head, row, unknown))) <= WIDTH


def test_the_pictures_are_drawn(tmp_path):
    timeline = Timeline("title", "subtitle", "load", [1.0, 2.0], STORY, target=0.85, limit=12)
    svg, png = draw(timeline, tmp_path)
    assert svg.read_text().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_demo_ends_as_quietly_as_it_begins():
    assert TURNS[0].percent == TURNS[-1].percent < max(turn.percent for turn in TURNS)
