from abc import ABC, abstractmethod

from discrete_meanflow.types import Times


class AlphaSchedule(ABC):
    """A map ``(r, t) -> alpha`` into [0, 1] with ``alpha(r, r) = 0`` exactly.

    It vanishes linearly at t = r; otherwise the kernel could not move at the boundary. Its
    derivative is the forward-mode derivative of ``__call__``, so there is no second formula.
    """

    @abstractmethod
    def __call__(self, r: Times, t: Times) -> Times: ...
