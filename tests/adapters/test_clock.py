"""The clocks: one never steps back, the other compresses everything alike."""

from types import SimpleNamespace

import pytest

from kvscale.adapters.clock import CompressedClock, SystemClock


@pytest.fixture
def machine(monkeypatch):
    """The machine's two clocks, in the test's hand."""

    class Machine:
        wall = 1_796_000_000.0
        monotonic = 50.0

        def pass_(self, seconds):
            self.wall += seconds
            self.monotonic += seconds

    clocks = Machine()
    fake = SimpleNamespace(time=lambda: clocks.wall, monotonic=lambda: clocks.monotonic)
    monkeypatch.setattr("kvscale.adapters.clock.time", fake)
    return clocks


@pytest.fixture
def slept(monkeypatch):
    """What was asked of asyncio.sleep, without waiting for it."""
    asked = []

    async def sleep(seconds):
        asked.append(seconds)

    monkeypatch.setattr("kvscale.adapters.clock.asyncio", SimpleNamespace(sleep=sleep))
    return asked


def test_the_system_clock_tells_epoch_seconds(machine):
    clock = SystemClock()
    machine.pass_(30.0)
    assert clock.now() == 1_796_000_030.0


@pytest.mark.parametrize("step", [-600.0, 600.0])
def test_a_step_of_the_wall_clock_moves_nothing(machine, step):
    clock = SystemClock()
    machine.pass_(1.0)
    machine.wall += step
    machine.pass_(1.0)
    assert clock.now() == 1_796_000_002.0


async def test_the_system_clock_sleeps_as_long_as_asked_and_never_less_than_not_at_all(slept):
    clock = SystemClock()
    await clock.sleep(2.5)
    await clock.sleep(-1.0)
    assert slept == [2.5, 0.0]


async def test_a_compressed_clock_compresses_waiting_and_telling_alike(machine, slept):
    clock = CompressedClock(60.0, machine.wall)
    started = clock.now()
    machine.pass_(2.0)
    await clock.sleep(120.0)
    assert started == 1_796_000_000.0
    assert clock.now() - started == 120.0
    assert slept == [2.0]


def test_stamps_of_another_machine_fit_the_system_clock_as_they_are(machine):
    assert SystemClock().at(1_795_999_990.0) == 1_795_999_990.0


def test_stamps_of_another_machine_are_compressed_from_zero_on_and_real_before(machine):
    clock = CompressedClock(60.0, machine.wall)
    machine.pass_(2.0)
    assert clock.at(machine.wall) == clock.now()
    assert clock.now() - clock.at(1_796_000_001.0) == 60.0
    assert clock.at(1_795_999_990.0) == 1_795_999_990.0


def test_processes_with_one_zero_share_one_compressed_time(machine):
    first = CompressedClock(60.0, 1_796_000_000.0)
    machine.pass_(7.0)
    second = CompressedClock(60.0, 1_796_000_000.0)
    assert first.now() == second.now() == 1_796_000_420.0


@pytest.mark.parametrize("step", [-600.0, 600.0])
def test_a_step_of_the_wall_clock_moves_no_compressed_time(machine, step):
    clock = CompressedClock(60.0, machine.wall)
    machine.wall += step
    assert clock.now() == 1_796_000_000.0


@pytest.mark.parametrize("factor", [0.0, 0.5, -1.0, float("nan"), float("inf")])
def test_a_factor_that_does_not_compress_is_refused(factor):
    with pytest.raises(ValueError, match="at least 1"):
        CompressedClock(factor, 0.0)
