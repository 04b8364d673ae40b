"""Settings that every test shares."""

import asyncio
import os

from hypothesis import HealthCheck, settings

# A slow machine is no failure: no example has a deadline. In CI the examples are the same in
# every run, so that a red run is the change's doing; a developer's runs explore.
settings.register_profile(
    "dev", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100
)
settings.register_profile(
    "ci", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "dev")
)

# The asyncio plugin asks for the thread's event loop before each asynchronous test, and Python 3.11
# then makes one that nobody closes, unless it has been told that there is none.
asyncio.set_event_loop(None)
