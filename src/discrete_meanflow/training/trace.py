"""Fast code for a training step of any network.

The step (vmap over seeds, forward-mode derivative inside, reverse-mode outside) is traced once
into a flat graph. Tracing leaves zero tangents, including matrix products with zero, which are
folded away. The graph is compiled if that pays, and captured on CUDA, so Python is not in the
inner loop.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.graph import CodeGen
from torch.utils._pytree import tree_leaves, tree_unflatten

from discrete_meanflow.training.compile_cache import call_compiled
from discrete_meanflow.training.gelu import gelu, gelu_backward
from discrete_meanflow.types import Logits, Point, Times

TRACE_FROM = 100  # steps; tracing takes some seconds
COMPILE_FROM = 3000  # steps; compiling takes half a minute, more than shorter runs gain
LONG_GRAPH = 1000  # nodes; below, a captured graph is as fast as a compiled one
LONG_SUM = 2048  # inner size of a matrix product from which a GPU gains by splitting it
SPLIT = 512

aten = torch.ops.aten
REWRITTEN: dict[Any, Callable[..., Any]] = {
    aten.gelu.default: gelu,
    aten.gelu_backward.default: gelu_backward,
}
ZERO = {
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten._efficientzerotensor.default,
}
ROUNDED = {aten.add.Tensor, aten._to_copy.default}  # their results are new memory, not views
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
    aten._to_copy.default,
}


def trace(f: Callable[..., Any], *example: Any, fused: bool = False) -> GraphModule:
    """f as a flat graph for inputs like ``example``, without zero tangents.

    With ``fused``, for a graph to compile, GELU is replaced by a form that fuses well.
    """
    graph = fold_zeros(make_fx(f, REWRITTEN if fused else {}, tracing_mode="real")(*example))
    return keep_halves(graph) if fused else graph


def fold_zeros(module: GraphModule) -> GraphModule:
    """Remove operations whose result is zero: ``x + 0 -> x``."""
    zeros: set[Node] = set()
    written = _written(module)
    for node in list(module.graph.nodes):
        inputs = node.all_input_nodes
        known = [i in zeros for i in inputs]
        if node in written:
            continue  # zero only until something writes to it
        if (
            node.target in ZERO
            or (node.target in ANNIHILATED and any(known))
            or (node.target in LINEAR and known[:1] == [True])
            or (node.target is aten.add.Tensor and len(known) == 2 and all(known))
        ):
            zeros.add(node)
        elif _plain_sum(node) and len(known) == 2 and any(known):
            other = inputs[known.index(False)]
            if _memory(other) == _memory(
                node
            ):  # else adding the zero changes shape, dtype or layout
                node.replace_all_uses_with(other)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def keep_halves(module: GraphModule) -> GraphModule:
    """Store values in half precision that are rounded to it and then read in float32.

    The compiler removes such a pair of conversions and stores float32: the state between layers
    and its gradient would take twice the memory and time. ``as_strided`` forces it to store its
    input.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is not aten._to_copy.default or _layout(node)[1] is not torch.float32:
            continue
        (half,) = node.all_input_nodes
        if half.target not in ROUNDED:
            continue
        shape, dtype, stride = _memory(half)
        if dtype.is_floating_point and dtype.itemsize == 2:
            with graph.inserting_after(half):
                arguments = (half, list(shape), list(stride))
                stored = graph.call_function(aten.as_strided.default, arguments)
            stored.meta = dict(half.meta)
            half.replace_all_uses_with(stored)
            stored.update_arg(0, half)  # the replacement made it its own input
    module.recompile()
    return module


def split_long_sums(module: GraphModule) -> GraphModule:
    """Split ``A B`` with a long inner axis into a sum of shorter products.

    The gradient of a weight sums over all positions of a batch into a small matrix. A GPU computes
    it on a few processors unless the sum is split.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is not aten.bmm.default:
            continue
        a, b = node.args
        (batch, rows, inner), columns = _layout(a)[0], _layout(b)[0][2]
        parts = inner // SPLIT
        if inner < max(LONG_SUM, 4 * rows, 4 * columns) or inner % SPLIT:
            continue
        with graph.inserting_before(node):
            a = graph.call_function(aten.reshape.default, (a, [batch, rows, parts, SPLIT]))
            a = graph.call_function(aten.permute.default, (a, [0, 2, 1, 3]))
            a = graph.call_function(aten.reshape.default, (a, [batch * parts, rows, SPLIT]))
            b = graph.call_function(aten.reshape.default, (b, [batch * parts, SPLIT, columns]))
            product = graph.call_function(aten.bmm.default, (a, b))
            product = graph.call_function(
                aten.reshape.default, (product, [batch, parts, rows, columns])
            )
            total = graph.call_function(aten.sum.dim_IntList, (product, [1]))
            total.meta = dict(node.meta)
        node.replace_all_uses_with(total)
    graph.eliminate_dead_code()
    module.recompile()
    return module


def _written(module: GraphModule) -> set[Node]:
    """Nodes whose memory an in-place operation writes, also through views."""
    written: set[Node] = set()
    for node in module.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        sources = list(node.all_input_nodes) if schema is not None and schema.is_mutable else []
        while sources:
            source = sources.pop()
            if source not in written:
                written.add(source)
                sources += source.all_input_nodes[:1] if _is_view(source) else []
    # Other views of the same memory see the write, too.
    for node in module.graph.nodes:
        if _is_view(node) and written.intersection(node.all_input_nodes[:1]):
            written.add(node)
    return written


def _plain_sum(node: Node) -> bool:
    return node.target is aten.add.Tensor and not node.kwargs.get("alpha")


def _is_view(node: Node) -> bool:
    """Whether the result may share the memory of the first input."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(r.alias_info is not None for r in schema.returns)


def _layout(node: Node) -> tuple[torch.Size, torch.dtype]:
    meta = node.meta["tensor_meta"]
    return meta.shape, meta.dtype


def _memory(node: Node) -> tuple[torch.Size, torch.dtype, tuple[int, ...]]:
    return *_layout(node), node.meta["tensor_meta"].stride


def can_compile(device: torch.device) -> bool:
    """Whether torch.compile can work: Triton on CUDA, else a C++ compiler and Python headers."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    default = "clang++" if sys.platform == "darwin" else "g++"
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(os.environ.get("CXX", default)) is not None and headers.exists()


def compiled(module: GraphModule) -> Callable[..., Any]:
    """The graph as compiled code, shared by graphs that differ only in constants."""
    results = module._out_spec
    assert results is not None  # make_fx records the structure of the outputs
    constants = flatten(module)
    shapes = [_layout(n) for n in module.graph.nodes if n.op == "placeholder"]
    key = f"{module.code} {shapes} {[(c.shape, c.dtype, c.device) for c in constants]}"
    if key not in _COMPILED:
        _COMPILED[key] = torch.compile(module, dynamic=False)
    shared = _COMPILED[key]

    def run(*inputs: Any) -> Any:
        return tree_unflatten(call_compiled(shared, *tree_leaves(inputs), *constants), results)

    return run


_COMPILED: dict[str, Callable[..., Any]] = {}


class CompiledNetwork(nn.Module):
    """``(x, r, t) -> network(x, r, t)`` as compiled code, without a gradient.

    For many evaluations with the shapes, strides and precision of the first. Not thread-safe.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.code: Callable[..., list[Tensor]] | None = None

    def forward(self, x: Point, r: Times, t: Times) -> Logits:
        if self.code is None:
            graph = trace(lambda inputs: [self.network(*inputs)], (x, r, t), fused=True)
            self.code = compiled(graph)
        with torch.autocast(x.device.type, enabled=False):  # the code contains the conversions
            return self.code((x, r, t))[0]


def flatten(module: GraphModule) -> list[torch.Tensor]:
    """Make a graph take and return plain tensors, with its constants as the last inputs.

    Returns the constants.
    """
    graph = module.graph
    graph.set_codegen(CodeGen())
    attributes = [node for node in graph.nodes if node.op == "get_attr"]
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    constants: list[torch.Tensor] = []
    for node in attributes:
        constants.append(getattr(module, node.target))
        with graph.inserting_after(last):
            last = graph.placeholder(f"constant_{len(constants)}")
        last.meta["tensor_meta"] = constants[-1]
        node.replace_all_uses_with(last)
        graph.erase_node(node)
    module.recompile()
    return constants
