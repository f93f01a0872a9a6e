"""A browser, and profiles of the property tests: no deadline, the same cases in every run.

To search for new cases: ``pytest --hypothesis-profile hunt``.
"""

import shutil

import pytest
from hypothesis import HealthCheck, settings

FAIR = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("steady", derandomize=True, max_examples=60, **FAIR)
settings.register_profile("hunt", max_examples=2000, **FAIR)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium. One for all tests of a process: Playwright does not start twice."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs the browser chromium")
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
