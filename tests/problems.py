"""The zoo: every instance that the laws run over."""

import torch

from discrete_meanflow.ctmc import chains
from discrete_meanflow.ctmc.generator import ConstantGenerator, RateGenerator
from discrete_meanflow.data import BigramChain, IndependentCategorical, Law
from discrete_meanflow.kernel import (
    BoundaryKernel,
    BridgeKernel,
    EulerKernel,
    FlowMapKernel,
    Kernel,
    MaskScoreKernel,
    Redraw,
    StudentAndFake,
    UnconstrainedKernel,
    UniformScoreKernel,
)
from discrete_meanflow.network import MLP
from discrete_meanflow.process import (
    Absorbing,
    ChainProcess,
    Masking,
    OneHotFlow,
    Process,
    SequenceProcess,
    SimulatedProcess,
    Structured,
    Uniform,
    UniformDiffusion,
)
from discrete_meanflow.schedule import AlphaSchedule, Distorted, Exponential, Linear, polydec
from discrete_meanflow.times import (
    ClockUniform,
    DyadicTimes,
    FromSource,
    GridTimes,
    Grouped,
    LogitNormal,
    MixedTimes,
    OnDiagonal,
    OneTime,
    TimeSampler,
    ToEnd,
    UniformGap,
)
from dmf_reproduction.bulk_queue import BulkQueue
from extra_chains import pulsed_ring, random_dense

ALPHA = 1e-6  # level of every chi-square test: a true law fails one run in a million


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


GENERATORS: dict[str, RateGenerator] = {
    **chains.paper_chains(),
    "random dense": random_dense(6, seeded(7)),
    "long ring": chains.ring(9, 5.0, 0.5),
    "pulsed ring": pulsed_ring(),
    "tilting birth-death": chains.tilting_birth_death(),
}

SCHEDULES: dict[str, AlphaSchedule] = {
    "exponential": Exponential(6.0),
    "linear": Linear(),
    "linear, paper": Linear(1e-6),
}

TIME_SAMPLERS: dict[str, TimeSampler] = {
    "uniform": UniformGap(0.01),
    "uniform, no gap": UniformGap(0.0),
    "logit-normal": LogitNormal(0.0),
    "logit-normal -0.4": LogitNormal(-0.4),
    "mixed": MixedTimes(0.25, UniformGap(0.01)),
    "from the source": FromSource(0.01),
    "diagonal": MixedTimes(0.0, UniformGap(0.01)),
    "clock": ClockUniform(5, 0.25),
    "on the diagonal": OnDiagonal(ClockUniform(5)),
    "grid": GridTimes(8),
    "one time": OneTime(),
    "distorted": Distorted(UniformGap(0.0), polydec),
    "to the end": ToEnd(5),
    "dyadic": DyadicTimes(5),
    "grouped": Grouped(ClockUniform(5), 4),
    "mostly on the diagonal": OnDiagonal(ClockUniform(5), 0.75),
}


def noisy_ring(states: int) -> Structured:
    """Structured noise on a ring; a slow one, so that its kernels are far from uniform."""
    return Structured(chains.ring(states, 0.5))


def kernels(states: int = 4) -> dict[str, Kernel]:
    """Random networks with weights large enough that their laws are far from uniform."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made: dict[str, Kernel] = {
            "boundary, exponential": BoundaryKernel(MLP(states, 16, 3), states, Exponential(3.0)),
            "boundary, linear": BoundaryKernel(MLP(states, 16, 3), states, Linear()),
            "unconstrained": UnconstrainedKernel(MLP(states, 16, 3), states),
            "carry-over": BoundaryKernel(MLP(states, 16, 3), states, Linear(), mask=states - 1),
            "bridge": BridgeKernel(MLP(states, 16, 3), noisy_ring(states)),
            "bridge, diffusion": BridgeKernel(MLP(states, 16, 3), UniformDiffusion(states)),
            "bridge, masking": BridgeKernel(MLP(states, 16, 3), Masking(states - 1), states - 1),
            "Euler": EulerKernel(BridgeKernel(MLP(states, 16, 3), Uniform(states)), Redraw(1.0)),
            "mask scores": MaskScoreKernel(MLP(states, 16, 3), Masking(states - 1)),
            "uniform scores": UniformScoreKernel(MLP(states, 16, 3), UniformDiffusion(states)),
            "flow map": FlowMapKernel(MLP(states, 16, 3), states),
            "flow map, ordered": FlowMapKernel(MLP(states, 16, 3), states, ordered=(3,)),
            "student and fake": StudentAndFake(
                *(FlowMapKernel(MLP(states, 16, 3), states) for _ in range(2)), fake_rate=3.0
            ),
        }
        for kernel in made.values():
            for p in kernel.parameters():
                p.data.mul_(2.5)
    return {name: kernel.double() for name, kernel in made.items()}


def processes() -> dict[str, Process]:
    window = torch.zeros(64, dtype=torch.float64)
    window[:3] = 1 / 3
    return {
        **{name: ChainProcess(u) for name, u in GENERATORS.items()},
        "ring, stratified": ChainProcess(chains.ring(), stratified=True),
        "tilting, stratified": ChainProcess(chains.tilting_birth_death(), stratified=True),
        "queue": SimulatedProcess(BulkQueue({1: 0.5, 3: 0.5}, 2.0), 64, window),
    }


LAWS: dict[str, Law] = {
    "independent": IndependentCategorical.dirichlet(3, 4, 1.0),
    "bigram": BigramChain.dirichlet(3, 4, 1.0),
    "bigram, peaked": BigramChain.dirichlet(4, 3, 0.1),
    "one position": IndependentCategorical.dirichlet(3, 1, 0.5),
}


def uniform_noise(states: int) -> ConstantGenerator:
    """``Q = 1/V - I``: a new symbol, uniform, at rate one."""
    return ConstantGenerator(
        torch.full((states, states), 1 / states, dtype=torch.float64)
        - torch.eye(states, dtype=torch.float64)
    )


def masking_noise(vocabulary: int) -> ConstantGenerator:
    """Every symbol turns into the mask at rate one."""
    u = -torch.eye(vocabulary + 1, dtype=torch.float64)
    u[-1] += 1
    return ConstantGenerator(u)


def sequence_processes() -> dict[str, SequenceProcess]:
    return {
        "masking": Masking(3),
        "absorbing": Absorbing(3, 1),
        "uniform": Uniform(3),
        "structured, ring": Structured(chains.ring(3)),
        "structured, ordinal": Structured(chains.birth_death(3)),
        "structured, uniform": Structured(uniform_noise(3)),
        "structured, masking": Structured(masking_noise(3), 3),
        "uniform diffusion": UniformDiffusion(3),
        "one-hot flow": OneHotFlow(3),
        "one-hot flow, ordered": OneHotFlow(3, ordered=(2,)),
    }
