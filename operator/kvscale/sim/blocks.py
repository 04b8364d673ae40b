"""KV blocks of decoding sequences, for many steps at once.

A sequence of c tokens needs another block at the step that computes token c when c - 1 tokens
fill its blocks exactly. All sequences grow by a token a step, so each asks again every
`block_tokens` steps, always at the same remainder of the step number. Counting sequences by that
remainder answers "how many blocks do the next n steps take" without looking at one of them.
"""


class BlockDemand:
    """Decoding sequences, counted by the step (modulo the block) at which they ask for a block."""

    __slots__ = ("_asking", "_block", "sequences")

    def __init__(self, block_tokens: int) -> None:
        self._block = block_tokens
        self._asking = [0] * block_tokens
        self.sequences = 0

    def add(self, step: int, tokens: int) -> int:
        """Count a sequence that has `tokens` tokens before `step`; returns its remainder."""
        remainder = (step - tokens + 1) % self._block
        self._asking[remainder] += 1
        self.sequences += 1
        return remainder

    def remove(self, remainder: int) -> None:
        """Forget a sequence of that remainder."""
        self._asking[remainder] -= 1
        self.sequences -= 1

    def asks(self, remainder: int, step: int) -> bool:
        """Whether a sequence of that remainder asks for a block at `step`."""
        return step % self._block == remainder

    def at(self, step: int) -> int:
        """Blocks that `step` takes."""
        return self._asking[step % self._block]

    def over(self, step: int, steps: int) -> int:
        """Blocks that `steps` steps from `step` on take."""
        rounds, rest = divmod(steps, self._block)
        blocks = rounds * self.sequences
        if rest:
            first = step % self._block
            last = first + rest
            asking = self._asking
            blocks += sum(asking[first:last])
            if last > self._block:
                blocks += sum(asking[: last - self._block])
        return blocks

    def steps_within(self, step: int, free: int, limit: int) -> int:
        """How many steps from `step` on `free` blocks suffice for, at most `limit`."""
        if not self.sequences:
            return limit
        # One round of `block` steps takes a block for every sequence.
        rounds, left = divmod(free, self.sequences)
        steps = rounds * self._block
        if steps >= limit:
            return limit
        asking, block = self._asking, self._block
        position = step % block
        while steps < limit:
            left -= asking[position]
            if left < 0:
                return steps
            steps += 1
            position += 1
            if position == block:
                position = 0
        return limit
