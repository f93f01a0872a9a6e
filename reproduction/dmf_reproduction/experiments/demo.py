"""The demo: the 3-state ring, from training to one-step samples."""

from dmf_reproduction.experiments.exact_recovery import ExactRecovery


class Demo(ExactRecovery):
    """The ring alone, at the paper's settings."""

    name = "demo"
    title = "The 3-state ring, from training to one-step samples"

    def __init__(self) -> None:
        super().__init__(names=("ring",), beyond=False)
