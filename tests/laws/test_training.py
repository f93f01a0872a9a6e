"""Laws of the training loop."""

import os

import pytest
import torch
from torch.utils._pytree import tree_map

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.transition import transition
from discrete_meanflow.data import BigramChain
from discrete_meanflow.errors import InputError
from discrete_meanflow.kernel import (
    AutoregressiveKernel,
    BoundaryKernel,
    BridgeKernel,
    UnconstrainedKernel,
    kernel_for,
)
from discrete_meanflow.metric import marginal_tv, total_variation
from discrete_meanflow.network import (
    MLP,
    CausalTransformer,
    DiagonalNetwork,
    DiT,
    FlatMLP,
    Transformer,
)
from discrete_meanflow.objective import (
    BoundaryPenalty,
    ConsistencyLoss,
    EulerianLoss,
    ExactExpectation,
    KernelCE,
    KernelResidual,
    LagrangianLoss,
    MeanFlow,
    ModelExpectation,
    MomentMatching,
    NextToken,
    Phases,
    PosteriorRegression,
    RaoBlackwell,
    ResidualKL,
    SampledRate,
    SemigroupLoss,
    TransitionLikelihood,
    Weighted,
    finite_difference,
    hybrid,
    remaining_time,
    shortcut,
)
from discrete_meanflow.path import ChainPaths, DataPaths
from discrete_meanflow.process import (
    Absorbing,
    ChainProcess,
    Masking,
    OneHotFlow,
    Structured,
    Uniform,
)
from discrete_meanflow.sampler import KernelSampler
from discrete_meanflow.schedule import Exponential, Linear
from discrete_meanflow.times import ClockUniform, UniformGap
from discrete_meanflow.training import (
    FlowMapDistillation,
    MatchingDistillation,
    Problem,
    Recipe,
    Trainer,
    checkpoint,
    compile_cache,
    sequence_problem,
    trace as trace_module,
    trainer as trainer_module,
)
from discrete_meanflow.training.trace import can_compile, compiled, trace
from dmf_reproduction.metrics import kernel_error, time_grid
from problems import processes, seeded

RING = chains.ring()


class ReadsValues(MLP):
    """A network that cannot be traced: ``one_hot`` reads its input."""

    def forward(self, x, r, t):
        nearest = torch.nn.functional.one_hot(x.argmax(-1), self.states)
        return super().forward(x + 0 * nearest, r, t)


class WritesInPlace(MLP):
    """A network that fills a tensor of zeros: tracing must not take it for zero."""

    def forward(self, x, r, t):
        features = t.new_zeros(*t.shape, self.states + 64)
        features[..., 0] = r
        features[..., 1] = t.square()
        return self.layers(features)


def problem(objective=None, process=None, kernel=None):
    process = process or ChainProcess(RING)
    n = process.states
    return Problem(
        ChainPaths(process, UniformGap(0.01)),
        kernel or (lambda: BoundaryKernel(MLP(n, 32, 3), n, Exponential(6.0))),
        objective(process) if objective else KernelResidual(SampledRate(process)),
    )


PROBLEMS = {
    "single sample": problem(),
    "four samples": problem(lambda p: KernelResidual(SampledRate(p, 4))),
    "exact expectation": problem(lambda p: KernelResidual(ExactExpectation(p))),
    "time-varying": problem(process=ChainProcess(chains.tilting_birth_death())),
    "likelihood": problem(lambda p: TransitionLikelihood()),
    "penalty": problem(
        lambda p: Weighted((1.0, KernelResidual(SampledRate(p))), (10.0, BoundaryPenalty(3))),
        kernel=lambda: UnconstrainedKernel(MLP(3, 32, 3), 3),
    ),
    "model expectation": problem(lambda p: KernelResidual(ModelExpectation(p))),
    "finite difference": problem(lambda p: KernelResidual(SampledRate(p), finite_difference)),
    "writes in place": problem(
        kernel=lambda: BoundaryKernel(WritesInPlace(3), 3, Exponential(6.0))
    ),
    "queue": problem(process=processes()["queue"]),
}
LAW = BigramChain.dirichlet(3, 4, 1.0)


def small_transformer(process, diagonal=False):
    network = Transformer(process.states, LAW.length, 16, 1, 2, 16, 8)
    if isinstance(process, Structured):
        return BridgeKernel(network, process)
    network = DiagonalNetwork(network) if diagonal else network
    return BoundaryKernel(network, process.states, Linear(), process.token)


def sequences(objective, process=None, diagonal=False):
    process = process or Masking(3)
    return Problem(
        DataPaths(process, LAW, UniformGap(0.02)),
        lambda: small_transformer(process, diagonal),
        objective(process),
    )


PROBLEMS |= {
    "sequences, KR": sequences(lambda p: KernelResidual(SampledRate(p))),
    "sequences, KCE": sequences(lambda p: KernelCE()),
    "sequences, PR": sequences(lambda p: PosteriorRegression(), diagonal=True),
    "sequences, hybrid": sequences(
        lambda p: hybrid(KernelResidual(SampledRate(p)), KernelCE(), 0.1)
    ),
    "sequences, Rao-Blackwell": sequences(
        lambda p: KernelResidual(RaoBlackwell(p), weight=remaining_time)
    ),
    "sequences, KL form": sequences(lambda p: ResidualKL()),
    "sequences, uniform": sequences(lambda p: KernelResidual(SampledRate(p)), Uniform(3)),
    "sequences, absorbing": sequences(lambda p: KernelCE(), Absorbing(3, 0)),
    "sequences, structured": sequences(
        lambda p: KernelResidual(SampledRate(p)), Structured(chains.ring(3))
    ),
}


def flow_map(objective):
    process = OneHotFlow(3)
    return Problem(
        DataPaths(process, LAW, ClockUniform(3), conditioning=0.5),
        lambda: kernel_for(process, FlatMLP(3, LAW.length, 16, 1)),
        objective,
    )


def matching(reverse=0.0):
    """The third stage of a flow map, with a random teacher."""
    first = flow_map(PosteriorRegression())
    teacher = first.build(3)
    for i, p in enumerate(teacher.parameters()):
        torch.nn.init.normal_(p, std=0.3, generator=seeded(i))
    second = FlowMapDistillation(60, 2, Recipe(1)).problem(first, teacher, seed=0)
    return MatchingDistillation(Recipe(1), reverse=reverse).problem(first, second, teacher)


def autoregressive():
    process = Masking(3)
    return Problem(
        DataPaths(process, LAW, UniformGap(0.02), conditioning=0.5),
        lambda: AutoregressiveKernel(CausalTransformer(4, LAW.length, 16, 1, 2), 4, process.token),
        NextToken(),
    )


FLOW_MAP = Weighted((1.0, PosteriorRegression()), (1.0, SemigroupLoss()))
PROBLEMS |= {
    "flow map, semigroup": flow_map(FLOW_MAP),
    "flow map, Lagrangian": flow_map(
        Weighted((1.0, PosteriorRegression()), (1.0, LagrangianLoss()))
    ),
    "flow map, Eulerian": flow_map(Weighted((1.0, PosteriorRegression()), (1.0, EulerianLoss()))),
    "MeanFlow": flow_map(MeanFlow()),
    "consistency": flow_map(ConsistencyLoss(3, 8)),
    "shortcut": flow_map(shortcut()),
    "moment matching": flow_map(MomentMatching(3)),
    "autoregressive": autoregressive(),
}
PROBLEMS |= {
    "distribution matching": matching(),
    "distribution matching, reverse": matching(-0.2),
}
every_problem = pytest.mark.parametrize("p", PROBLEMS.values(), ids=PROBLEMS)


def finish(trainer):
    return [record.loss for record in trainer.blocks()]


@every_problem
def test_the_traced_step_is_the_step(p):
    """Tracing and folding zeros must not change a single bit of loss or gradient."""
    trainer = Trainer(p, Recipe(10, batch=16), [1, 2])
    paths = trainer._draw(2, trainer.generators)
    first, second = (tree_map(lambda a, i=i: a[i], paths) for i in range(2))

    def gradient(parameters, path):
        return trainer.stack.clipped_gradient(parameters, {}, path, 1.0)

    traced = trace(gradient, trainer.parameters, first)
    loss, gradients = gradient(trainer.parameters, second)
    traced_loss, traced_gradients = traced(trainer.parameters, second)
    assert torch.equal(loss, traced_loss)
    for name in gradients:
        assert torch.equal(gradients[name], traced_gradients[name])


@every_problem
def test_stacked_seeds_are_trained_as_one_by_one(p):
    """A plain loop over one seed, written out, ends at the weights of the stacked loop."""
    recipe = Recipe(6, batch=16, block=3)
    trainer = Trainer(p, recipe, [1, 2])
    finish(trainer)
    for seed, stacked in zip([1, 2], trainer.kernels(), strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            kernel = p.kernel()
        g = seeded(seed)
        scales = {p: kernel.learning_rate_scale(name) for name, p in kernel.named_parameters()}
        optimiser = torch.optim.AdamW(
            [{"params": [p], "scale": scale} for p, scale in scales.items()],
            weight_decay=recipe.weight_decay,
        )
        for step in range(recipe.iterations):
            if step % recipe.block == 0:
                paths = p.sample((recipe.block, recipe.batch), g)
            path = tree_map(lambda a, i=step % recipe.block: a[i], paths)
            for group in optimiser.param_groups:
                group["lr"] = group["scale"] * recipe.learning_rate_at(step)
            optimiser.zero_grad()
            p.objective(kernel, path).backward()
            torch.nn.utils.clip_grad_norm_(kernel.parameters(), recipe.clip)
            optimiser.step()
        # Kernels, not weights: where a gradient is zero (the bias of attention keys), AdamW
        # makes steps of the learning rate out of rounding.
        laws = [k.probs(path.x, path.r, path.t) for k in (kernel, stacked)]
        assert (laws[0] - laws[1]).abs().max() < 2e-6


def test_large_steps_train_the_seeds_in_turn(monkeypatch):
    recipe = Recipe(6, batch=16, block=3)
    p = PROBLEMS["sequences, hybrid"]
    stacked = Trainer(p, recipe, [1, 2])
    losses = finish(stacked)
    monkeypatch.setattr(trainer_module, "LARGE_STEP", 1)
    in_turn = Trainer(p, recipe, [1, 2])
    assert torch.tensor(finish(in_turn)).allclose(torch.tensor(losses), rtol=1e-4)
    path = tree_map(lambda a: a[0, 0], stacked._draw(1, stacked.generators))
    for a, b in zip(stacked.kernels(), in_turn.kernels(), strict=True):
        laws = [k.probs(path.x, path.r, path.t) for k in (a, b)]
        assert (laws[0] - laws[1]).abs().max() < 2e-6


# Those whose objectives differ in nothing that a checkpoint holds need not all be resumed.
RESUMED = {
    name: p
    for name, p in PROBLEMS.items()
    if not name.startswith("sequences") or name in ("sequences, KR", "sequences, structured")
}


@pytest.mark.parametrize("p", RESUMED.values(), ids=RESUMED)
def test_resume_is_bit_for_bit(p, tmp_path):
    recipe = Recipe(40, batch=16, block=10)
    whole = Trainer(p, recipe, [1, 2])
    losses = finish(whole)
    half = Trainer(p, recipe, [1, 2])
    blocks = half.blocks()
    next(blocks), next(blocks)
    checkpoint.save(tmp_path / "state.safetensors", half, {"a": 1}, {"curve": [1.5]})
    resumed = Trainer(p, recipe, [1, 2])
    assert checkpoint.load(tmp_path / "state.safetensors", resumed, {"a": 1}) == {"curve": [1.5]}
    assert resumed.iteration == 20
    assert finish(resumed) == losses[2:]
    for name in whole.parameters:
        assert torch.equal(whole.parameters[name], resumed.parameters[name])


PHASED = flow_map(Phases((0.5, PosteriorRegression()), (0.5, FLOW_MAP)))


@pytest.mark.parametrize("cut", [10, 20, 30])
def test_phases_and_emas_resume_bit_for_bit(cut, tmp_path):
    """Cut within a phase and between two."""
    recipe = Recipe(40, batch=16, block=10, ema_decay=0.9)
    whole = Trainer(PHASED, recipe, [1, 2])
    losses = finish(whole)
    half = Trainer(PHASED, recipe, [1, 2])
    blocks = half.blocks()
    while half.iteration < cut:
        next(blocks)
    checkpoint.save(tmp_path / "state.safetensors", half, {}, {})
    resumed = Trainer(PHASED, recipe, [1, 2])
    checkpoint.load(tmp_path / "state.safetensors", resumed, {})
    assert finish(resumed) == losses[cut // 10 :]
    for ours, theirs in ((whole.parameters, resumed.parameters), (whole.ema, resumed.ema)):
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_prefetched_paths_are_the_same_paths(tmp_path, monkeypatch):
    """As on a GPU: the same run, and the same when it goes on from a checkpoint."""
    recipe = Recipe(7, batch=8, block=2, ema_decay=0.9)

    def run(stop=99):
        trainer = Trainer(PROBLEMS["flow map, semigroup"], recipe, [1, 2])
        losses = [record.loss for _, record in zip(range(stop), trainer.blocks(), strict=False)]
        return trainer, losses

    whole, losses = run()

    def prefetch(trainer, iteration, stream):
        before = [g.get_state() for g in trainer.generators]
        drawn = trainer._next_block(iteration) if iteration < 7 else None
        assert all(map(torch.equal, before, [g.get_state() for g in trainer.generators]))
        return drawn

    monkeypatch.setattr(Trainer, "_prefetch", prefetch)
    again, losses_again = run()
    assert losses_again == losses
    assert all(torch.equal(p, again.parameters[name]) for name, p in whole.parameters.items())
    cut, begun = run(2)
    checkpoint.save(tmp_path / "cut.safetensors", cut, {}, [])
    resumed = Trainer(PROBLEMS["flow map, semigroup"], recipe, [1, 2])
    checkpoint.load(tmp_path / "cut.safetensors", resumed, {})
    assert begun + [record.loss for record in resumed.blocks()] == losses


def test_the_ema_follows_the_weights_and_teaches():
    recipe = Recipe(3, batch=16, block=1, ema_decay=0.9)
    trainer = Trainer(PROBLEMS["flow map, semigroup"], recipe, [1])
    for p in trainer.parameters.values():
        torch.nn.init.normal_(p, std=0.2, generator=seeded())
    trainer.ema = {name: p + 0.1 for name, p in trainer.parameters.items()}
    expected = {name: p.clone() for name, p in trainer.ema.items()}
    g = trainer.generators[0].clone_state()
    teacher, kernel = (trainer.problem.build(1) for _ in range(2))
    used = {name: p.clone() for name, p in trainer.parameters.items()}
    for record in trainer.blocks():
        with torch.no_grad():
            for module, weights in ((teacher, expected), (kernel, used)):
                for name, p in module.named_parameters():
                    p.copy_(weights[name][0])
        path = tree_map(lambda a: a[0], trainer.problem.sample((1, 16), g))
        loss = trainer.problem.objective(kernel, path, teacher)
        assert abs(loss.item() - record.loss[0]) < 1e-5
        alone = trainer.problem.objective(kernel, path).item()
        assert record.iteration > 1 or abs(alone - record.loss[0]) > 1e-4
        for name, p in trainer.parameters.items():
            used[name] = p.clone()
            expected[name].lerp_(p, 9 / (9 + record.iteration))  # fast at first
            assert (expected[name] - trainer.ema[name]).abs().max() < 1e-6
    kept = dict(trainer.kernels()[0].named_parameters())
    assert all(torch.equal(kept[name], p[0]) for name, p in trainer.ema.items())


def test_training_starts_from_trained_kernels():
    p = PROBLEMS["flow map, semigroup"]
    trained = [p.build(seed) for seed in (5, 6)]
    trainer = Trainer(p, Recipe(1), [1, 2], start=trained)
    for i, kernel in enumerate(trained):
        for name, value in kernel.named_parameters():
            assert torch.equal(trainer.parameters[name][i], value)
    with pytest.raises(InputError, match="2 seeds need as many kernels"):
        Trainer(p, Recipe(1), [1, 2], start=trained[:1])


@pytest.mark.parametrize("name", ["single sample", "sequences, KR"])
def test_a_traced_run_is_the_run_bit_for_bit(name, monkeypatch, tmp_path):
    recipe = Recipe(6, batch=16, block=3)
    plain = Trainer(PROBLEMS[name], recipe, [1, 2])
    losses = finish(plain)
    monkeypatch.setattr(trainer_module, "TRACE_FROM", 1)
    traced = Trainer(PROBLEMS[name], recipe, [1, 2])
    assert finish(traced) == losses
    for key in plain.parameters:
        assert torch.equal(plain.parameters[key], traced.parameters[key])


def test_untraceable_network_trains_step_by_step(monkeypatch):
    n = PROBLEMS["single sample"].process.states
    reads = problem(kernel=lambda: BoundaryKernel(ReadsValues(n, 32, 3), n, Exponential(6.0)))
    recipe = Recipe(6, batch=16, block=3)
    plain = Trainer(reads, recipe, [1])
    losses = finish(plain)
    monkeypatch.setattr(trainer_module, "TRACE_FROM", 1)
    with pytest.warns(UserWarning, match="cannot be traced, so training is slower: "):
        assert finish(Trainer(reads, recipe, [1])) == losses


compiles = pytest.mark.skipif(
    not can_compile(torch.device("cpu")), reason="no C++ compiler and Python headers here"
)


@compiles
def test_the_compiled_step_is_the_step(monkeypatch):
    recipe = Recipe(20, batch=32, block=10)
    plain = Trainer(PROBLEMS["single sample"], recipe, [1, 2])
    finish(plain)
    monkeypatch.setattr(trainer_module, "TRACE_FROM", 1)
    monkeypatch.setattr(trainer_module, "COMPILE_FROM", 1)
    fast = Trainer(PROBLEMS["single sample"], recipe, [1, 2])
    finish(fast)
    for name in plain.parameters:
        assert (plain.parameters[name] - fast.parameters[name]).abs().max() < 1e-5


def step_of(trainer):
    def gradient(parameters, path):
        return trainer.stack.clipped_gradient(parameters, {}, path, 1.0)

    return gradient


@compiles
def test_steps_that_differ_in_constants_share_code(monkeypatch):
    """Two weights of the hybrid: compiled once, each with its own gradient."""
    traced, shared = [], []
    for weight in (0.1, 3.0):
        p = sequences(lambda p, w=weight: hybrid(KernelResidual(SampledRate(p)), KernelCE(), w))
        trainer = Trainer(p, Recipe(10, batch=16), [1, 2])
        path = tree_map(lambda a: a[0], trainer._draw(1, trainer.generators))
        gradient = step_of(trainer)
        before = len(trace_module._COMPILED)
        _, exact = gradient(trainer.parameters, path)
        _, fast = compiled(trace(gradient, trainer.parameters, path))(trainer.parameters, path)
        shared.append(len(trace_module._COMPILED) - before)
        for name in exact:
            assert (exact[name] - fast[name]).abs().max() < 1e-5
        traced.append(exact["network.head.weight"])
    assert shared == [1, 0]
    assert (traced[0] - traced[1]).abs().max() > 1e-4


def test_long_sums_are_split_without_changing_them(monkeypatch):
    monkeypatch.setattr(trace_module, "LONG_SUM", 64)
    monkeypatch.setattr(trace_module, "SPLIT", 16)
    trainer = Trainer(PROBLEMS["sequences, KR"], Recipe(10, batch=64), [1, 2])
    path = tree_map(lambda a: a[0], trainer._draw(1, trainer.generators))
    gradient = step_of(trainer)
    graph = trace(gradient, trainer.parameters, path)
    before = len(graph.graph.nodes)
    loss, exact = gradient(trainer.parameters, path)
    split = trace_module.split_long_sums(graph)
    assert len(split.graph.nodes) > before
    split_loss, found = split(trainer.parameters, path)
    assert torch.equal(loss, split_loss)
    for name in exact:
        assert (exact[name] - found[name]).abs().max() < 1e-5


def test_training_learns_the_marginals_of_sequences():
    trainer = Trainer(PROBLEMS["sequences, KCE"], Recipe(400, batch=64, learning_rate=5e-3), [1])
    masks = torch.full((1, LAW.length), LAW.vocabulary)
    zero = torch.zeros(1, 1)

    def error():
        with torch.no_grad():
            law = trainer.kernels()[0].probs(masks, zero, zero + 1)[0, :, : LAW.vocabulary]
        return total_variation(law, LAW.marginals()).mean().item()

    before = error()
    finish(trainer)
    assert error() < min(0.03, before / 4)


@compiles
def test_a_compiled_run_resumes_bit_for_bit(monkeypatch, tmp_path):
    monkeypatch.setattr(trainer_module, "TRACE_FROM", 1)
    monkeypatch.setattr(trainer_module, "COMPILE_FROM", 1)
    test_resume_is_bit_for_bit(PROBLEMS["single sample"], tmp_path)


@pytest.mark.parametrize("error", [RuntimeError("invalid ELF header"), OSError(28, "No space")])
def test_damaged_compiled_code_is_compiled_elsewhere(error, monkeypatch, tmp_path):
    monkeypatch.setenv(compile_cache.VARIABLE, str(tmp_path))

    def code(x):
        if os.environ[compile_cache.VARIABLE] == str(tmp_path):
            raise error
        return x + 1

    with pytest.warns(UserWarning, match=f"compiled code in {tmp_path} cannot be used"):
        assert compile_cache.call_compiled(code, 1) == 2
    with pytest.raises(TypeError):  # no fault of the folder
        compile_cache.call_compiled(code, "1")

    def wrong(x):
        raise error

    with pytest.raises(type(error)):
        compile_cache.call_compiled(wrong, 1)


def test_untrained_tensors_must_not_differ_between_seeds():
    class RandomFeatures(MLP):
        def __init__(self):
            super().__init__(3, 16, 2)
            self.register_buffer("directions", torch.randn(3))

    bad = problem(kernel=lambda: BoundaryKernel(RandomFeatures(), 3, Exponential(6.0)))
    with pytest.raises(InputError, match=r"'network.directions' is not trained but differs"):
        Trainer(bad, Recipe(1), [1, 2])


def test_parts_that_do_not_fit_are_rejected():
    with pytest.raises(InputError, match=r"kernel has Discrete\(size=4\), the process Discrete"):
        problem(kernel=lambda: BoundaryKernel(MLP(4), 4, Exponential(6.0))).build(0)
    with pytest.raises(InputError, match="needs points of 4 states"):
        finish(Trainer(problem(kernel=lambda: UnconstrainedKernel(MLP(4), 3)), Recipe(1), [0]))
    short = sequence_problem(LAW, kernel=lambda: kernel_for(Masking(3), Transformer(4, 5)))
    with pytest.raises(InputError, match="needs sequences of length 5"):
        finish(Trainer(short, Recipe(1), [0]))
    with pytest.raises(InputError, match="built on another process"):
        problem(lambda p: KernelResidual(SampledRate(ChainProcess(RING))))


def test_kernels_of_another_process_are_rejected():
    masking, ring = Masking(3), Structured(chains.ring(3))
    network = Transformer(4, 4, 16, 1, 2, 16, 8)

    def build(process, kernel):
        return Problem(DataPaths(process, LAW, UniformGap()), lambda: kernel, KernelCE()).build(0)

    with pytest.raises(InputError, match="mask is 1, the process's noise 3"):
        build(masking, BoundaryKernel(network, 4, Linear(), 1))
    with pytest.raises(InputError, match="belongs to another process"):
        build(ring, BridgeKernel(network, Structured(chains.ring(3))))


@pytest.mark.parametrize("process", [Masking(3), Uniform(3), Structured(chains.ring(3))])
def test_one_step_and_several_from_any_source(process):
    """After a short training from its own noise, each process generates the marginals."""
    problem = sequence_problem(LAW, process=process, kernel=lambda: small_transformer(process))
    trainer = Trainer(problem, Recipe(300, batch=64, learning_rate=5e-3), [1])
    finish(trainer)
    kernel, g = trainer.kernels()[0], seeded()
    for steps in (1, 4):
        y = KernelSampler.steps(kernel, steps).sample(process.source((4000, 4), g), g)
        assert marginal_tv(y, LAW, process.states) < 0.08


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.add(torch.zeros(3), x, alpha=2),
        lambda x: _diagonal(x),
        lambda x: torch.zeros(3) + x * torch.zeros(3),
    ],
)
def test_tensors_that_are_not_zero_are_kept(f):
    x = torch.arange(3.0)
    assert torch.equal(trace(lambda x: f(x), x)(x), f(x))


def _diagonal(x):
    z = torch.zeros(3, 3)
    z.diagonal().add_(x)
    return z + torch.ones(3, 3)


def test_products_of_split_products_are_split(monkeypatch):
    monkeypatch.setattr(trace_module, "LONG_SUM", 16)
    monkeypatch.setattr(trace_module, "SPLIT", 8)
    a, b, c = torch.rand(2, 4, 16), torch.rand(2, 16, 32), torch.rand(2, 32, 4)

    def f(a, b, c):
        return torch.bmm(torch.bmm(a, b), c)

    split = trace_module.split_long_sums(trace(f, a, b, c))
    assert torch.allclose(split(a, b, c), f(a, b, c))


def test_rounded_values_that_are_read_again_are_stored():
    """Of a state in half precision, all that reads it reads one view, which a compiler stores; what
    is not read in float32, or not rounded here, has none."""

    def f(x, w):
        state = (x * 1.001 + 1).bfloat16()
        product = state @ w
        return state.float() * 2, (state + product).float().mean(-1), product.float(), x.double()

    x, w = torch.rand(4, 8), torch.rand(8, 8).bfloat16()
    graph = trace(f, x, w, fused=True)
    stored = [n for n in graph.graph.nodes if n.target is torch.ops.aten.as_strided.default]
    assert [len(n.users) for n in stored] == [3, 1]
    assert all(list(n.all_input_nodes[0].users) == [n] for n in stored)
    assert "as_strided" not in trace(f, x, w).code
    for found, exact in zip(graph(x, w), f(x, w), strict=True):
        assert torch.equal(found, exact)


@pytest.mark.parametrize(
    "order", [lambda x: x, lambda x: x.t(), lambda x: torch.zeros(4, 4) + x.t()]
)
def test_stored_values_keep_their_layout(order):
    x = torch.rand(4, 4)
    graph = trace(lambda x: order(x).bfloat16().float(), x, fused=True)
    assert "as_strided" in graph.code
    assert torch.equal(graph(x), order(x).bfloat16().float())


@pytest.mark.parametrize("form", ["tanh", "none"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_traced_gelu_is_gelu(form, dtype):
    x = torch.linspace(-8, 8, 1001, dtype=dtype)

    def gelu(x):
        return torch.nn.functional.gelu(x, approximate=form)

    def value_and_slopes(x):
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            value = gelu(leaf)
            (slope,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), slope, torch.func.jvp(gelu, (x,), (torch.ones_like(x),))[1]

    assert "gelu" in trace(value_and_slopes, x).code
    graph = trace(value_and_slopes, x, fused=True)
    assert ("gelu" in graph.code) == (form == "none")
    roundings = 2 if dtype is torch.bfloat16 else 64
    for found, exact in zip(graph(x), value_and_slopes(x), strict=True):
        assert found.dtype == dtype
        error = (found - exact).abs() / (1 + exact.abs())
        assert error.max() <= roundings * torch.finfo(dtype).eps


def test_training_recovers_a_kernel():
    p = problem(lambda process: KernelResidual(ExactExpectation(process)))
    trainer = Trainer(p, Recipe(600, batch=128, learning_rate=5e-3), [1])
    r, t = time_grid(10)
    exact = transition(RING, r, t)

    def error():
        return kernel_error(trainer.kernels()[0].matrix(r, t).detach(), exact).max

    before = error()
    finish(trainer)
    assert error() < min(0.02, before / 4)


def test_the_learning_rate_falls_to_one_percent():
    recipe = Recipe(100)
    assert recipe.learning_rate_at(0) == 3e-4
    assert abs(recipe.learning_rate_at(100) - 3e-6) < 1e-12
    assert abs(recipe.learning_rate_at(50) - 3e-4 * 0.505) < 1e-9


def test_a_loss_that_is_not_finite_stops_with_its_place():
    trainer = Trainer(PROBLEMS["single sample"], Recipe(40, batch=8, block=10), [7, 8])
    blocks = trainer.blocks()
    next(blocks)
    trainer.parameters["network.layers.0.bias"][1] = torch.nan
    with pytest.raises(InputError, match="nan at step 11 of seed 8"):
        next(blocks)


def test_seeds_must_differ():
    with pytest.raises(InputError, match="distinct seeds"):
        Trainer(PROBLEMS["single sample"], Recipe(1), [1, 1])


@pytest.mark.parametrize("bad", [{"iterations": 0}, {"learning_rate": 0.0}, {"batch": 0}])
def test_a_bad_recipe_is_rejected(bad):
    with pytest.raises(InputError, match="recipe"):
        Recipe(**{"iterations": 1, **bad})


class TestCheckpoint:
    """What is read from a file must be whole, ours, and of this run."""

    @pytest.fixture
    def saved(self, tmp_path):
        trainer = Trainer(PROBLEMS["single sample"], Recipe(20, batch=8, block=10), [1])
        finish(trainer)
        checkpoint.save(tmp_path / "state.safetensors", trainer, {"a": 1}, {})
        return tmp_path / "state.safetensors"

    def load(self, path, settings=None, width=32):
        p = problem(kernel=lambda: BoundaryKernel(MLP(3, width, 3), 3, Exponential(6.0)))
        trainer = Trainer(p, Recipe(20, batch=8), [1])
        checkpoint.load(path, trainer, settings or {"a": 1})

    def test_cut_short(self, saved):
        saved.write_bytes(saved.read_bytes()[:-100])
        with pytest.raises(InputError, match="damaged or foreign"):
            self.load(saved)

    def test_foreign(self, saved):
        saved.write_bytes(b"not a checkpoint")
        with pytest.raises(InputError, match="damaged or foreign"):
            self.load(saved)

    def test_another_programs_safetensors(self, saved):
        from safetensors.torch import save_file

        save_file({"x": torch.zeros(2)}, saved)
        with pytest.raises(InputError, match="written by another version"):
            self.load(saved)

    def test_other_settings(self, saved):
        with pytest.raises(InputError, match="other settings"):
            self.load(saved, {"a": 2})

    def test_other_shapes(self, saved):
        with pytest.raises(InputError, match="lacks"):
            self.load(saved, width=16)

    def test_another_state_space(self, tmp_path):
        """Though the same network serves both."""
        data = BigramChain.dirichlet(4, 6)
        continuous = sequence_problem(data, process=OneHotFlow)
        discrete = sequence_problem(
            data,
            process=Uniform,
            kernel=lambda: BoundaryKernel(DiT(4, 6), 4, Linear()),
        )
        path, recipe = tmp_path / "continuous.safetensors", Recipe(1, batch=4)
        trainer = Trainer(continuous, recipe, [1])
        finish(trainer)
        checkpoint.save(path, trainer, {}, {})
        checkpoint.load(path, Trainer(continuous, recipe, [1]), {})
        with pytest.raises(InputError, match="has Continuous"):
            checkpoint.load(path, Trainer(discrete, recipe, [1]), {})
        with pytest.raises(InputError, match="start from has Continuous"):
            Trainer(discrete, recipe, [1], start=trainer.kernels())

    def test_no_folder(self, tmp_path):
        trainer = Trainer(PROBLEMS["single sample"], Recipe(10, batch=8, block=10), [1])
        finish(trainer)
        with pytest.raises(InputError, match="cannot write"):
            checkpoint.save(tmp_path / "nowhere" / "x.safetensors", trainer, {}, {})
