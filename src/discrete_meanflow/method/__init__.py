"""Systems side by side: each is a process, a kernel, an objective, times and a sampler."""

from discrete_meanflow.method.base import Method as Method
from discrete_meanflow.method.registry import (
    METHODS as METHODS,
    find_method as find_method,
    names_of_methods as names_of_methods,
)
