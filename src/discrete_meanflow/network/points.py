from torch import Tensor

from discrete_meanflow.errors import InputError


def check_points(name: str, x: Tensor, states: int, length: int | None = None) -> None:
    """Raise an error unless x holds points of n states, in D positions if a length is given."""
    if x.shape[-1] != states:
        raise InputError(f"{name}: needs points of {states} states, got shape {tuple(x.shape)}")
    if length is not None and x.shape[-2:-1] != (length,):
        raise InputError(f"{name}: needs sequences of length {length}, got {tuple(x.shape[:-1])}")
