"""One simulated engine: vLLM's V1 scheduler over a roofline, from event to event.

The rules are those of vLLM 0.33 (`v1/core/sched/scheduler.py: schedule`, `_preempt_request`):
running sequences first, in order of admission; a sequence that finds no free block preempts the
last one in that order, whose blocks are freed and which goes to the head of the queue, to be
recomputed with what it has generated; after a preemption a step admits nobody; then the queue,
first come first served, while token budget and `max_num_seqs` last and the whole of a request's
tokens fits the free blocks (`scheduler_reserve_full_isl`, on by default), though blocks are
taken chunk by chunk. Prefix caching, speculation, priorities and swap are not modelled.

Nothing happens token by token. Between two events (an arrival, the end of a prefill chunk, the
first step that lacks a block, a finish) the batch decodes as one `Run`: each step takes longer by
the same amount, so times are arithmetic series and block demand is counted by remainders.
"""

from collections import deque
from heapq import heappop, heappush
from math import inf

from kvscale.core.capacity.roofline import chunk_pairs
from kvscale.sim.blocks import BlockDemand
from kvscale.sim.request import Finished, Gauges, Request
from kvscale.sim.run import Run
from kvscale.sim.sequence import Sequence
from kvscale.sim.settings import EngineSettings


class Engine:
    """A simulated engine. Time is an argument and never runs backwards."""

    def __init__(self, settings: EngineSettings, started_at: float = 0.0) -> None:
        self.settings = settings
        self._now = started_at
        self._free = settings.usable_blocks  # before the blocks that the present run takes
        self._step = 0  # number of the run's first step
        self._resident = 0  # tokens of the decoding sequences, as of that step
        self._demand = BlockDemand(settings.block_tokens)
        self._arrivals: deque[tuple[float, Sequence]] = deque()
        self._waiting: deque[Sequence] = deque()
        self._running: dict[int, Sequence] = {}  # in order of admission
        self._finishing: list[tuple[int, int, Sequence]] = []
        self._partial: Sequence | None = None  # always the last of the running
        self._chunks: list[tuple[Sequence, int]] = []
        self._run: Run | None = None  # None: idle
        self._run_end = inf
        self._finished: list[Finished] = []
        self._preemptions = self._prompt_tokens = self._generated = self._finished_total = 0

    @property
    def outstanding(self) -> int:
        """Requests that are running, waiting, or about to arrive."""
        return len(self._running) + len(self._waiting) + len(self._arrivals)

    @property
    def next_event(self) -> float:
        """When the state changes next if nothing is submitted; infinity when idle."""
        return min(self._run_end, self._arrivals[0][0]) if self._arrivals else self._run_end

    def submit(self, request: Request, at: float) -> None:
        """Queue a request that reaches the engine at `at`; calls come in order of time.

        Raises:
            ValueError: `at` lies before what the engine has seen, or the request is too long.
        """
        if at < self._now or (self._arrivals and at < self._arrivals[-1][0]):
            raise ValueError(f"request {request.id} at {at} lies before what the engine has seen")
        if not self.settings.accepts(request):
            raise ValueError(f"request {request.id} is longer than max_model_len; see `accepts`")
        self._arrivals.append((at, Sequence(request)))

    def advance(self, to: float) -> list[Finished]:
        """Run until `to`; returns what finished since the last call, in order of time.

        Raises:
            ValueError: `to` lies before now.
        """
        if to < self._now:
            raise ValueError(f"cannot go back from {self._now} to {to}")
        while True:
            arrival = self._arrivals[0][0] if self._arrivals else inf
            if arrival <= to and arrival <= self._run_end:
                self._arrive(arrival)
            elif self._run is not None and self._run_end <= to:
                self._complete(self._run)
                self._schedule()
            else:
                break
        self._now = to
        finished, self._finished = self._finished, []
        return finished

    def gauges(self) -> Gauges:
        """The scheduler's state at the moment to which the engine was advanced.

        A step's blocks count from its beginning, its tokens from its end.
        """
        taken = generated = 0
        if self._run is not None:
            done = self._run.done_by(self._now)
            taken = self._demand.over(self._step, min(done + 1, self._run.steps))
            generated = done * self._demand.sequences
        return Gauges(
            running=len(self._running),
            waiting=len(self._waiting),
            used_blocks=self.settings.usable_blocks - self._free + taken,
            usable_blocks=self.settings.usable_blocks,
            preemptions_total=self._preemptions,
            prompt_tokens_total=self._prompt_tokens,
            generation_tokens_total=self._generated + generated,
            finished_total=self._finished_total,
        )

    def unfinished(self) -> list[tuple[Request, int]]:
        """What would be lost now, and how often each was preempted; oldest first."""
        inside = [*self._running.values(), *self._waiting, *(s for _, s in self._arrivals)]
        inside.sort(key=lambda s: (s.request.arrived_at, s.request.id))
        return [(s.request, s.preemptions) for s in inside]

    def _arrive(self, at: float) -> None:
        """Take the next arrival into the queue and wake the scheduler if it could be admitted."""
        had_waiting = bool(self._waiting)
        self._waiting.append(self._arrivals.popleft()[1])
        if self._run is None:
            while self._arrivals and self._arrivals[0][0] <= at:
                self._waiting.append(self._arrivals.popleft()[1])
            self._now = at
            self._schedule()
        elif not self._chunks and not had_waiting and len(self._running) < self._max_seqs:
            # The scheduler looks at the queue between steps. A queue that already waits, waits
            # for a finish; nobody overtakes its head.
            self._run.cut_at(at)
            self._run_end = self._run.end

    @property
    def _max_seqs(self) -> int:
        return self.settings.max_num_seqs

    def _complete(self, run: Run) -> None:
        """Book the run's steps: tokens, blocks, prompts that are through, finishes."""
        self._now = self._run_end
        if run.steps:
            self._free -= self._demand.over(self._step, run.steps)
            self._step += run.steps
            emitted = run.steps * self._demand.sequences
            self._resident += emitted
            self._generated += emitted
            for sequence, tokens in self._chunks:
                sequence.computed += tokens
                if sequence.computed == sequence.tokens:
                    self._emit_first(sequence)
        self._chunks = []
        while self._finishing and self._finishing[0][0] <= self._step:
            until, _, sequence = heappop(self._finishing)
            if sequence.until == until:  # otherwise preempted since, and in the heap once more
                self._stop_decoding(sequence)
                self._finish(sequence)

    def _emit_first(self, sequence: Sequence) -> None:
        """A prefill is through: its last step emitted a token, and decoding begins."""
        request = sequence.request
        if sequence is self._partial:
            self._partial = None
        if sequence.first_token_at < 0:
            sequence.first_token_at = self._now
            self._prompt_tokens += request.prompt_tokens
        self._generated += 1
        sequence.tokens += 1
        left = request.prompt_tokens + request.output_tokens - sequence.tokens
        if not left:
            self._finish(sequence)
            return
        sequence.since = self._step
        sequence.until = self._step + left
        sequence.remainder = self._demand.add(self._step, sequence.tokens)
        self._resident += sequence.tokens
        heappush(self._finishing, (sequence.until, request.id, sequence))

    def _stop_decoding(self, sequence: Sequence) -> None:
        """Bring a decoding sequence up to date and take it out of the batch's sums."""
        sequence.tokens += self._step - sequence.since
        sequence.computed = sequence.tokens - 1
        sequence.since = sequence.until = -1
        self._demand.remove(sequence.remainder)
        self._resident -= sequence.tokens

    def _finish(self, sequence: Sequence) -> None:
        del self._running[sequence.request.id]
        self._free += self.settings.blocks(sequence.computed)
        self._finished_total += 1
        self._finished.append(
            Finished(sequence.request, sequence.first_token_at, self._now, sequence.preemptions)
        )

    def _preempt_last(self) -> None:
        """Take the last admitted sequence's blocks; it starts over from the queue's head."""
        _, sequence = self._running.popitem()
        if sequence is self._partial:
            self._partial = None
        else:
            self._stop_decoding(sequence)
        self._free += self.settings.blocks(sequence.computed)
        sequence.computed = 0
        sequence.preemptions += 1
        self._preemptions += 1
        self._waiting.appendleft(sequence)

    def _schedule(self) -> None:
        """Decide the next step and, if it is a pure decode, how many like it follow."""
        while self._arrivals and self._arrivals[0][0] <= self._now:
            self._waiting.append(self._arrivals.popleft()[1])
        preempted = False
        while self._demand.at(self._step) > self._free:
            self._preempt_last()
            preempted = True
        free = self._free - self._demand.at(self._step)
        budget = self.settings.max_num_batched_tokens - self._demand.sequences
        if self._partial is not None:
            tokens = min(self._partial.tokens - self._partial.computed, budget)
            if self._extra_blocks(self._partial, tokens) > free:
                self._preempt_last()
                preempted = True
            elif tokens:
                free -= self._take(self._partial, tokens)
                budget -= tokens
        while not preempted and self._waiting and budget and len(self._running) < self._max_seqs:
            sequence = self._waiting[0]
            if self.settings.blocks(sequence.tokens) > free:
                break
            self._waiting.popleft()
            self._running[sequence.request.id] = sequence
            tokens = min(sequence.tokens, budget)
            free -= self._take(sequence, tokens)
            budget -= tokens
            if tokens < sequence.tokens:
                self._partial = sequence
        self._run = self._next_run()
        self._run_end = self._run.end if self._run is not None else inf

    def _extra_blocks(self, sequence: Sequence, tokens: int) -> int:
        blocks = self.settings.blocks
        return blocks(sequence.computed + tokens) - blocks(sequence.computed)

    def _take(self, sequence: Sequence, tokens: int) -> int:
        """Put a chunk into the coming step; returns the blocks that it took."""
        blocks = self._extra_blocks(sequence, tokens)
        self._free -= blocks
        self._chunks.append((sequence, tokens))
        return blocks

    def _next_run(self) -> Run | None:
        decoding = self._demand.sequences
        step = self.settings.step
        if self._chunks:
            tokens = sum(chunk for _, chunk in self._chunks)
            past = sum(s.computed for s, _ in self._chunks)
            pairs = sum(chunk_pairs(s.computed, chunk) for s, chunk in self._chunks)
            seconds = step.seconds(
                decode_sequences=decoding,
                resident_tokens=self._resident,
                prefill_tokens=tokens,
                prefill_past=past,
                prefill_pairs=pairs,
            )
            return Run(self._now, seconds, 0.0, 1)
        if not decoding:
            return None
        line = step.decode_run(decoding, self._resident)
        steps = self._finishing[0][0] - self._step
        steps = self._demand.steps_within(self._step, self._free, int(min(steps, line.steps)))
        return Run(self._now, line.first, line.growth, steps)
