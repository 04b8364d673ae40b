"""The event-driven engine against a slow, obvious one, on random workloads.

The reference takes one step at a time and one sequence at a time, with the blocks that each
holds. It is written from the scheduler's rules and shares only the step time with the engine.
"""

from dataclasses import dataclass, field
from math import ceil, inf

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kvscale.core.capacity.roofline import SparseWeights, StepTime, chunk_pairs
from kvscale.sim.engine import Engine
from kvscale.sim.request import Finished, Request
from kvscale.sim.settings import EngineSettings


@dataclass
class Held:
    request: Request
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    first_token_at: float | None = None
    preemptions: int = 0

    @property
    def tokens(self) -> int:
        return self.request.prompt_tokens + self.generated


@dataclass
class Reference:
    settings: EngineSettings
    now: float = 0.0
    waiting: list[Held] = field(default_factory=list)
    running: list[Held] = field(default_factory=list)
    free: int = 0
    finished: list[Finished] = field(default_factory=list)
    preemptions: int = 0
    generated: int = 0
    prompt_tokens: int = 0

    def needed(self, held: Held, new: int) -> int:
        return ceil((held.computed + new) / self.settings.block_tokens) - held.blocks

    def take(self, held: Held, new: int) -> None:
        blocks = self.needed(held, new)
        self.free -= blocks
        held.blocks += blocks
        assert self.free >= 0

    def schedule(self) -> list[tuple[Held, int]]:
        plan = []
        budget = self.settings.max_num_batched_tokens
        preempted = False
        index = 0
        while index < len(self.running) and budget > 0:
            held = self.running[index]
            new = min(held.tokens - held.computed, budget)
            victim = None
            while self.needed(held, new) > self.free and victim is not held:
                victim = self.running.pop()
                self.free += victim.blocks
                victim.blocks = victim.computed = 0
                victim.preemptions += 1
                self.preemptions += 1
                self.waiting.insert(0, victim)
                preempted = True
            if victim is held:
                break
            self.take(held, new)
            plan.append((held, new))
            budget -= new
            index += 1
        while not preempted and self.waiting and budget > 0:
            if len(self.running) == self.settings.max_num_seqs:
                break
            held = self.waiting[0]
            if ceil(held.tokens / self.settings.block_tokens) > self.free:
                break
            self.waiting.pop(0)
            self.running.append(held)
            new = min(held.tokens, budget)
            self.take(held, new)
            plan.append((held, new))
            budget -= new
        return plan

    def seconds(self, plan: list[tuple[Held, int]]) -> float:
        decodes = [h for h, new in plan if new == 1 and h.generated and h.computed == h.tokens - 1]
        chunks = [(h, new) for h, new in plan if h not in decodes]
        return self.settings.step.seconds(
            decode_sequences=len(decodes),
            resident_tokens=sum(h.tokens for h in decodes),
            prefill_tokens=sum(new for _, new in chunks),
            prefill_past=sum(h.computed for h, _ in chunks),
            prefill_pairs=sum(chunk_pairs(h.computed, new) for h, new in chunks),
        )

    def run(self, requests: list[Request], until: float = inf) -> None:
        """Serve everything, or stop within the step that is in progress at `until`."""
        self.free = self.settings.usable_blocks
        arrivals = list(requests)
        while True:
            while arrivals and arrivals[0].arrived_at <= self.now:
                self.waiting.append(Held(arrivals.pop(0)))
            plan = self.schedule()
            if not plan:
                assert not self.waiting
                assert not self.running
                if not arrivals or arrivals[0].arrived_at > until:
                    return
                self.now = arrivals[0].arrived_at
                continue
            end = self.now + self.seconds(plan)
            if end > until:
                self.waiting += [Held(r) for r in arrivals if r.arrived_at <= until]
                return
            self.now = end
            for held, new in plan:
                held.computed += new
                if held.computed == held.tokens:
                    self.emit(held)

    def emit(self, held: Held) -> None:
        held.generated += 1
        self.generated += 1
        if held.first_token_at is None:
            held.first_token_at = self.now
            self.prompt_tokens += held.request.prompt_tokens
        if held.generated == held.request.output_tokens:
            self.running.remove(held)
            self.free += held.blocks
            self.finished.append(
                Finished(held.request, held.first_token_at, self.now, held.preemptions)
            )


@st.composite
def settings_and_requests(draw: st.DrawFn) -> tuple[EngineSettings, list[Request]]:
    """Engines so small that they run out of everything, and requests in bursts and lulls."""
    longest = draw(st.integers(2, 120))
    block = draw(st.sampled_from([1, 3, 4, 16]))
    seqs = draw(st.integers(1, 10))
    # Odd constants, so that no arrival falls onto the end of a step by rounding.
    step = StepTime(
        fixed=draw(st.sampled_from([0.00137, 0.0411])),
        dense=0.012345,
        sparse=draw(st.sampled_from([(), (SparseWeights(0.0531, 0.97),)])),
        kv_token=draw(st.sampled_from([0.0, 1.3e-6, 1.01e-4])),
        compute_token=draw(st.sampled_from([1.03e-5, 1.17e-3])),
        compute_pair=draw(st.sampled_from([0.0, 1.1e-8, 1.73e-4])),
        stages=draw(st.integers(1, 2)),
    )
    settings = EngineSettings(
        kv_blocks=1 + -(-longest // block) + draw(st.integers(0, 25)),
        block_tokens=block,
        max_num_seqs=seqs,
        max_num_batched_tokens=seqs + draw(st.sampled_from([0, 1, 7, 50, 500])),
        max_model_len=longest,
        step=step,
    )
    requests = []
    at = 0.0
    for index in range(draw(st.integers(1, 20))):
        at += draw(st.sampled_from([0.0, 0.0107, 0.1013, 1.0019]))
        prompt = draw(st.integers(1, longest - 1))
        output = draw(st.integers(1, longest - prompt))
        requests.append(Request(index, at, prompt, output))
    return settings, requests


def engine_with(settings: EngineSettings, requests: list[Request]) -> Engine:
    engine = Engine(settings)
    for request in requests:
        engine.submit(request, request.arrived_at)
    return engine


@given(settings_and_requests())
def test_every_request_finishes_when_and_as_often_preempted_as_in_the_reference(
    case: tuple[EngineSettings, list[Request]],
) -> None:
    settings, requests = case
    reference = Reference(settings)
    reference.run(requests)
    engine = engine_with(settings, requests)
    finished = engine.advance(reference.now + 1)

    event("with preemption" if reference.preemptions else "without preemption")
    expected = {f.request.id: f for f in reference.finished}
    assert {f.request.id for f in finished} == expected.keys() == {r.id for r in requests}
    for done in finished:
        other = expected[done.request.id]
        assert done.preemptions == other.preemptions
        assert done.first_token_at == pytest.approx(other.first_token_at, rel=1e-9)
        assert done.finished_at == pytest.approx(other.finished_at, rel=1e-9)
    assert [f.finished_at for f in finished] == sorted(f.finished_at for f in finished)


@given(settings_and_requests(), st.floats(0.001, 0.999))
def test_the_gauges_in_the_middle_are_those_of_the_reference(
    case: tuple[EngineSettings, list[Request]], share: float
) -> None:
    settings, requests = case
    whole = Reference(settings)
    whole.run(requests)
    until = whole.now * share
    reference = Reference(settings)
    reference.run(requests, until)
    engine = engine_with(settings, requests)
    engine.advance(until)

    gauges = engine.gauges()
    assert gauges.running == len(reference.running)
    assert gauges.waiting == len(reference.waiting)
    assert gauges.used_blocks == settings.usable_blocks - reference.free
    assert gauges.preemptions_total == reference.preemptions
    assert gauges.generation_tokens_total == reference.generated
    assert gauges.prompt_tokens_total == reference.prompt_tokens
    assert gauges.finished_total == len(reference.finished)


@given(settings_and_requests(), st.lists(st.floats(0, 30), max_size=30))
def test_blocks_and_tokens_are_conserved_however_often_one_looks(
    case: tuple[EngineSettings, list[Request]], looks: list[float]
) -> None:
    settings, requests = case
    engine = engine_with(settings, requests)
    finished = []
    for look in sorted(looks):
        finished += engine.advance(look)
        gauges = engine.gauges()
        assert 0 <= gauges.used_blocks <= gauges.usable_blocks == settings.kv_blocks - 1
        assert gauges.running <= settings.max_num_seqs
        assert (gauges.used_blocks > 0) == (gauges.running > 0)
    finished += engine.advance(1e6)

    gauges = engine.gauges()
    assert len(finished) == len(requests) == gauges.finished_total
    assert (gauges.running, gauges.waiting, gauges.used_blocks) == (0, 0, 0)
    assert gauges.prompt_tokens_total == sum(r.prompt_tokens for r in requests)
    assert gauges.generation_tokens_total == sum(r.output_tokens for r in requests)
    assert gauges.preemptions_total == sum(f.preemptions for f in finished)
    assert engine.next_event == inf
    for done in finished:
        assert done.request.arrived_at < done.first_token_at <= done.finished_at


@given(settings_and_requests(), st.lists(st.floats(0, 30), max_size=30))
def test_looking_changes_nothing(
    case: tuple[EngineSettings, list[Request]], looks: list[float]
) -> None:
    settings, requests = case
    watched, alone = engine_with(settings, requests), engine_with(settings, requests)
    seen = []
    for look in sorted(looks):
        seen += watched.advance(look)
        watched.gauges()
    seen += watched.advance(1e6)
    assert seen == alone.advance(1e6)
