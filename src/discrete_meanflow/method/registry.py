"""All methods by name."""

from discrete_meanflow.errors import InputError
from discrete_meanflow.method import autoregressive, continuous, discrete
from discrete_meanflow.method.base import Method

METHODS: dict[str, Method] = {**continuous.METHODS, **discrete.METHODS, **autoregressive.METHODS}


def find_method(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; known: {', '.join(METHODS)}")
    return METHODS[name]
