"""From a function of tensors to fast code for it, for any network.

The step (vmap over seeds, forward-mode derivative inside, reverse-mode outside) is traced
once into a flat graph of tensor operations. Tracing leaves zero tangents behind, among them
whole matrix products with zero; they are folded away. The graph is then compiled (CPU) or
captured and replayed (CUDA), so Python is out of the inner loop.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

COMPILE_FROM = 3000  # steps; compiling takes half a minute, which shorter runs never win back

aten = torch.ops.aten
ZERO = {aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default}
# f(..., 0, ...) = 0 whatever the other arguments are
ANNIHILATED = {aten.mm.default, aten.bmm.default, aten.mul.Tensor}
# f(0) = 0
LINEAR = {
    aten.view.default,
    aten._unsafe_view.default,
    aten.expand.default,
    aten.transpose.int,
    aten.t.default,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.select.int,
    aten.slice.Tensor,
    aten.clone.default,
    aten.alias.default,
    aten.detach.default,
    aten.neg.default,
    aten.mul.Scalar,
}


def trace(f: Callable[..., Any], *example: Any) -> GraphModule:
    """f as a flat graph for inputs shaped like ``example``, without its zero tangents."""
    return fold_zeros(make_fx(f, tracing_mode="real")(*example))


def fold_zeros(module: GraphModule) -> GraphModule:
    """Remove operations whose result is zero by construction: ``x + 0 -> x``."""
    zeros: set[Node] = set()
    written = _written(module)
    for node in list(module.graph.nodes):
        inputs = node.all_input_nodes
        known = [i in zeros for i in inputs]
        if node in written:
            continue  # zero only until something is written into it
        if (
            node.target in ZERO
            or (node.target in ANNIHILATED and any(known))
            or (node.target in LINEAR and known[:1] == [True])
            or (node.target is aten.add.Tensor and len(known) == 2 and all(known))
        ):
            zeros.add(node)
        elif node.target is aten.add.Tensor and len(known) == 2 and any(known):
            other = inputs[known.index(False)]
            if _layout(other) == _layout(node):  # else the zero broadcasts or converts it
                node.replace_all_uses_with(other)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _written(module: GraphModule) -> set[Node]:
    """Nodes whose memory an in-place operation writes, through any chain of views."""
    written: set[Node] = set()
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        found = list(node.all_input_nodes) if schema is not None and schema.is_mutable else []
        while found:
            source = found.pop()
            if source not in written:
                written.add(source)
                found += source.all_input_nodes[:1] if source.target in LINEAR else []
    # Other views of the same memory see what was written, too.
    for node in module.graph.nodes:
        if node.target in LINEAR and written.intersection(node.all_input_nodes[:1]):
            written.add(node)
    return written


def _layout(node: Node) -> tuple[torch.Size, torch.dtype]:
    meta = node.meta["tensor_meta"]
    return meta.shape, meta.dtype


def can_compile() -> bool:
    """Whether there is a C++ compiler and Python's headers for compiled CPU steps."""
    default = "clang++" if sys.platform == "darwin" else "g++"
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(os.environ.get("CXX", default)) is not None and headers.exists()


def compiled(module: GraphModule) -> Callable[..., Any]:
    """The graph as compiled CPU code."""
    return torch.compile(module, dynamic=False)
