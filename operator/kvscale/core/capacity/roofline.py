"""The time of one engine step, as a roofline.

    seconds = max(bytes / effective bandwidth, FLOPs / effective peak) + fixed

A step reads the weights that its tokens touch and the KV of every sequence in it, and computes
two FLOPs per active parameter and token plus the attention over what each token attends to. Work
of the prompt chunk and of the decodes shares the step, as in chunked prefill. The coefficients
for a model on a device come from `core.capacity.step_time`.
"""

from dataclasses import dataclass
from math import inf

SEARCH_LIMIT = 1 << 20
"""Batches beyond this are not a crossover that anybody meets."""


@dataclass(frozen=True, slots=True)
class SparseWeights:
    """Weights of which a token touches a share, as the experts of a mixture.

    Attributes:
        seconds: to read all of them.
        untouched: share that one token leaves alone. Tokens route independently, so n tokens
            leave `untouched ** n` alone.
    """

    seconds: float
    untouched: float


@dataclass(frozen=True, slots=True)
class DecodeRun:
    """Consecutive decode steps of one batch: step j (from 0) takes `first + growth * j`.

    Attributes:
        first: seconds of the first step.
        growth: seconds that each step adds, because every sequence has grown by a token.
        steps: for how many steps the line holds (until the roofline bends).
    """

    first: float
    growth: float
    steps: float


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step's time in coefficients, quick enough for the inner loop of a simulation.

    Attributes:
        fixed: seconds of every step.
        dense: seconds to read the weights that every step reads.
        sparse: weights of which a step reads a share.
        kv_token: seconds to read the KV of one resident token.
        kv_sequence: seconds to read what a decoding sequence keeps besides its tokens: full
            windows and states (counted full from the first token on).
        compute_token: seconds of the matrix products of one token.
        compute_pair: seconds of attention of one token to one token.
        stages: pipeline stages, which share a step's tokens.
    """

    fixed: float
    dense: float
    sparse: tuple[SparseWeights, ...]
    kv_token: float
    compute_token: float
    compute_pair: float
    stages: int = 1
    kv_sequence: float = 0.0

    def weight_seconds(self, tokens: int) -> float:
        """Seconds to read the weights that a step of that many tokens touches."""
        seconds = self.dense
        for part in self.sparse:
            seconds += part.seconds * (1.0 - part.untouched ** (tokens / self.stages))
        return seconds

    def memory_seconds(self, tokens: int, resident_tokens: int, sequences: int = 0) -> float:
        """The memory roof of a step with that many decoding sequences, without the fixed part."""
        kv = self.kv_token * resident_tokens + self.kv_sequence * sequences
        return self.weight_seconds(tokens) + kv

    def compute_seconds(self, tokens: int, pairs: int) -> float:
        """The compute roof of a step, without the fixed part."""
        return self.compute_token * tokens + self.compute_pair * pairs

    def seconds(
        self,
        *,
        decode_sequences: int,
        resident_tokens: int,
        prefill_tokens: int = 0,
        prefill_past: int = 0,
        prefill_pairs: int | None = None,
    ) -> float:
        """Seconds of one step; 0 without tokens.

        Args:
            decode_sequences: sequences that decode one token each.
            resident_tokens: tokens of these sequences, whose KV they read.
            prefill_tokens: prompt tokens that are computed along.
            prefill_past: tokens of the same prompts that are in the cache already.
            prefill_pairs: (token, attended token) pairs of the prompt part; None: it is one chunk
                of one prompt.
        """
        tokens = decode_sequences + prefill_tokens
        if not tokens:
            return 0.0
        if prefill_pairs is None:
            prefill_pairs = chunk_pairs(prefill_past, prefill_tokens)
        read = resident_tokens + prefill_past + prefill_tokens
        memory = self.memory_seconds(tokens, read, decode_sequences)
        compute = self.compute_seconds(tokens, resident_tokens + prefill_pairs)
        return max(memory, compute) + self.fixed

    def decode_run(self, sequences: int, resident_tokens: int) -> DecodeRun:
        """The coming decode steps of a batch that neither grows nor shrinks."""
        memory = self.memory_seconds(sequences, resident_tokens, sequences)
        compute = self.compute_seconds(sequences, resident_tokens)
        memory_growth = self.kv_token * sequences
        compute_growth = self.compute_pair * sequences
        if memory >= compute:
            high, growth, low, low_growth = memory, memory_growth, compute, compute_growth
        else:
            high, growth, low, low_growth = compute, compute_growth, memory, memory_growth
        # Two lines: the lower one overtakes at most once, and then a new run begins.
        steps = (high - low) // (low_growth - growth) + 1 if low_growth > growth else inf
        return DecodeRun(high + self.fixed, growth, steps)

    def prefill_seconds(self, prompt_tokens: int, chunk_tokens: int | None = None) -> float:
        """Seconds of a prompt that has the device to itself, in chunks of `chunk_tokens`."""
        chunk = chunk_tokens or max(prompt_tokens, 1)
        seconds = 0.0
        for past in range(0, prompt_tokens, chunk):
            tokens = min(chunk, prompt_tokens - past)
            memory = self.memory_seconds(tokens, past + tokens)
            compute = self.compute_seconds(tokens, chunk_pairs(past, tokens))
            seconds += max(memory, compute) + self.fixed
        return seconds

    def is_memory_bound(self, decode_sequences: int, resident_tokens: int) -> bool:
        """Whether a decode step waits for memory rather than for arithmetic."""
        memory = self.memory_seconds(decode_sequences, resident_tokens, decode_sequences)
        return memory > self.compute_seconds(decode_sequences, resident_tokens)

    def crossover_batch(self, context_tokens: int) -> int | None:
        """The smallest batch whose decode step is not memory-bound any more.

        Args:
            context_tokens: length of each sequence.

        Returns:
            None if there is none: with long contexts each sequence brings more KV to read than
            arithmetic to do.
        """
        # Touched weights are concave in the batch and the rest is linear, so memory minus compute
        # is concave and not negative at 0: it changes sign once, if ever.
        low, high = 0, 1
        while self.is_memory_bound(high, high * context_tokens):
            low, high = high, high * 2
            if high > SEARCH_LIMIT:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_memory_bound(middle, middle * context_tokens):
                low = middle
            else:
                high = middle
        return high


def chunk_pairs(past: int, tokens: int) -> int:
    """Pairs (token, attended token) of a chunk after `past` tokens, under a causal mask."""
    return tokens * past + tokens * (tokens + 1) // 2
