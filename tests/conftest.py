"""Property tests judge results, not the speed of the machine they run on."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, max_examples=50)
settings.load_profile("steady")
