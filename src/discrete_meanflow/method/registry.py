"""All methods by name."""

from collections.abc import Callable

from discrete_meanflow.errors import InputError
from discrete_meanflow.method import (
    autoregressive,
    consistency,
    ctmc_flow,
    d3pm,
    defog,
    discrete_flow_matching,
    flow_matching,
    kernel_ce,
    mdlm,
    mean_flow,
    moment_matching,
    one_step,
    sedd,
    self_distillation,
    shortcut_models,
)
from discrete_meanflow.method.base import Method

SYSTEMS = (
    one_step,
    flow_matching,
    self_distillation,
    mean_flow,
    consistency,
    shortcut_models,
    moment_matching,
    d3pm,
    sedd,
    mdlm,
    discrete_flow_matching,
    ctmc_flow,
    defog,
    kernel_ce,
    autoregressive,
)
METHODS: dict[str, Method] = {
    name: method for system in SYSTEMS for name, method in system.METHODS.items()
}


def find_method(name: str) -> Method:
    """The method of this name."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; known: {', '.join(METHODS)}")
    return METHODS[name]


def names_of_methods(has: Callable[[Method], bool]) -> str:
    """The names of the methods that have something, for errors."""
    return ", ".join(name for name, method in METHODS.items() if has(method))
