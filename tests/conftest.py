"""Profiles of the property tests: no deadline, and the same cases in every run.

To search for new cases: ``pytest --hypothesis-profile hunt``.
"""

from hypothesis import HealthCheck, settings

FAIR = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, max_examples=60, **FAIR)
settings.register_profile("hunt", max_examples=2000, **FAIR)
settings.load_profile("steady")
