"""Settings that every test shares."""

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
