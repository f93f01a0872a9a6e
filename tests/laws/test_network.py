"""Laws of every network: shapes, times per position, and derivatives in t."""

import copy

import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.network import (
    MLP,
    CausalTransformer,
    DiagonalNetwork,
    DiT,
    FlatMLP,
    Transformer,
    dit,
    transformer,
)
from discrete_meanflow.objective import finite_difference, forward_mode
from problems import seeded

STATES, LENGTH = 5, 6


def networks():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = {
            "mlp": MLP(STATES, 16, 3),
            "transformer": Transformer(STATES, LENGTH, 16, 2, 2, 16, 8),
            "diagonal": DiagonalNetwork(Transformer(STATES, LENGTH, 16, 2, 2, 16, 8)),
            "DiT": DiT(STATES, LENGTH, 16, 2, 2),
            "flat": FlatMLP(STATES, LENGTH, 16, 2),
        }
        made["causal"] = CausalTransformer(STATES, LENGTH, 16, 2, 2)
        for name in ("DiT", "flat", "causal"):  # whose last layers start at zero
            for p in made[name].parameters():
                torch.nn.init.normal_(p, std=0.2)
        return {name: network.double() for name, network in made.items()}


NETWORKS = networks()
every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def batch(*shape):
    g = seeded()
    x = torch.randn(*shape, LENGTH, STATES, generator=g, dtype=torch.float64)
    r = torch.rand(*shape, 1, generator=g, dtype=torch.float64) / 2
    return x, r, r + torch.rand(*shape, 1, generator=g, dtype=torch.float64) / 2


@every_network
def test_logits_for_every_position(network):
    for shape in ((3,), (2, 3)):
        assert network(*batch(*shape)).shape == (*shape, LENGTH, STATES)


@every_network
def test_one_time_for_all_positions_is_that_time_in_each(network):
    x, r, t = batch(4)
    spread = network(x, r.expand(4, LENGTH), t.expand(4, LENGTH))
    assert (network(x, r, t) - spread).abs().max() < 1e-12


@every_network
def test_sequences_of_a_batch_do_not_see_each_other(network):
    x, r, t = batch(4)
    alone = torch.cat([network(x[i : i + 1], r[i : i + 1], t[i : i + 1]) for i in range(4)])
    assert (network(x, r, t) - alone).abs().max() < 1e-12


@every_network
def test_the_derivative_in_t_is_the_finite_difference(network):
    x, r, t = batch(4)
    exact = forward_mode(lambda t: network(x, r, t), t)
    finite = finite_difference(lambda t: network(x, r, t), t)
    assert (exact - finite).abs().max() < 1e-6  # the clock is linear between the points of a table
    blind = network in (NETWORKS["diagonal"], NETWORKS["causal"])
    assert (exact.abs().max() == 0) == blind


@every_network
def test_logits_depend_on_the_state(network):
    x, r, t = batch(4)
    moved = network(x + 0.1 * torch.randn(x.shape, generator=seeded(1)), r, t)
    assert (moved - network(x, r, t)).abs().max() > 1e-4


@every_network
def test_points_of_another_shape_are_rejected(network):
    x, r, t = batch(4)
    with pytest.raises(InputError, match=f"needs points of {STATES} states"):
        network(x[..., :-1], r, t)
    if network is not NETWORKS["mlp"]:
        with pytest.raises(InputError, match=f"needs sequences of length {LENGTH}"):
            network(x[:, :-1], r, t)


@pytest.mark.parametrize("name", ["transformer", "DiT", "flat"])
def test_each_position_has_its_own_time(name):
    """The logits of other positions depend on the time of an observed one."""
    x, r, t = batch(2)
    times = [s.expand(2, LENGTH).clone() for s in (r, t)]
    free = NETWORKS[name](x, *times)
    for s in times:
        s[:, 0] = 1
    assert (NETWORKS[name](x, *times) - free)[:, 1:].abs().max() > 1e-4


def test_modulations_for_two_times_are_those_of_each_position(monkeypatch):
    """Also their derivatives, and where generated positions end at time 1 like observed ones."""
    x, r, t = batch(4)
    observed = torch.rand(4, LENGTH, generator=seeded()) < 0.5
    observed[0], observed[1] = True, False
    t[2] = 1
    r[1] = t[1] = 0.9995  # nearly 1, but not observed
    r, t = (torch.where(observed, 1.0, s) for s in (r, t))
    tangent = (~observed).double()

    def value_and_slope():
        return torch.func.jvp(lambda t: NETWORKS["DiT"](x, r, t), (t,), (tangent,))

    quick = value_and_slope()
    monkeypatch.setattr(dit, "two_times", lambda r, t: (r, t, None))
    for a, b in zip(quick, value_and_slope(), strict=True):
        assert (a - b).abs().max() < 1e-12
    assert quick[1][0].abs().max() == 0 < quick[1][3].abs().max()


@every_network
def test_one_time_for_the_whole_batch(network):
    if network is NETWORKS["mlp"]:
        return  # times of chains have the axes of their states
    x, _, _ = batch(4)
    r, t = torch.tensor([0.3, 0.7], dtype=torch.float64)
    spread = [s.expand(4, 1) for s in (r, t)]
    assert (network(x, r, t) - network(x, *spread)).abs().max() < 1e-12


@pytest.mark.parametrize("kind", [DiT, CausalTransformer])
@pytest.mark.parametrize("parameters", [3e5, 1e6, 1e7, 1e8])
def test_a_network_is_sized_by_its_parameters(parameters, kind):
    with torch.device("meta"):
        network = kind.sized(27, 32, parameters)
    count = sum(p.numel() for p in network.parameters())
    assert 0.4 * parameters < count <= parameters


def test_half_precision_gives_nearly_the_same():
    torch.manual_seed(0)
    network = DiT(5, 4, 64, 3, 2)
    for p in network.parameters():  # a fresh one is the identity
        torch.nn.init.normal_(p, std=0.1)
    carried = []
    network.norm.register_forward_pre_hook(lambda _, given: carried.append(given[0].dtype))
    x, t = torch.randn(16, 4, 5), torch.rand(16, 1)
    exact = network(x, t / 2, t)
    with torch.autocast("cpu", torch.bfloat16):
        near = network(x, t / 2, t).float()
    assert carried == [torch.float32, torch.bfloat16]
    assert 0 < (near - exact).norm() / exact.norm() < 0.02


@pytest.mark.parametrize(
    "build",
    [
        lambda: DiT(1, 4),
        lambda: DiT(4, 0),
        lambda: DiT(4, 4, 18, 2, 6),
        lambda: CausalTransformer(1, 4),
        lambda: CausalTransformer(4, 4, 18, 2, 4),
        lambda: FlatMLP(1, 4),
        lambda: FlatMLP(4, 4, 15),
    ],
)
def test_impossible_sizes_are_rejected(build):
    with pytest.raises(InputError, match="needs"):
        build()


def test_positions_of_a_transformer_see_each_other_and_their_place():
    network = NETWORKS["transformer"]
    x, r, t = batch(1)
    other = x.clone()
    other[0, 0] += 1
    assert (network(x, r, t) - network(other, r, t))[0, 1:].abs().max() > 1e-4
    same = torch.zeros_like(x)
    assert network(same, r, t)[0].std(0).max() > 1e-4


@pytest.mark.parametrize(
    ("vocabulary", "length", "count"), [(4, 8, 334_213), (8, 16, 336_265), (16, 32, 340_369)]
)
def test_the_papers_parameter_count(vocabulary, length, count):
    network = Transformer(vocabulary + 1, length)
    assert sum(p.numel() for p in network.parameters()) == count
    assert sum(p.numel() for p in DiagonalNetwork(network).parameters()) == count


def test_bad_sizes_are_rejected():
    for sizes, message in (
        ((1, 4), "at least 2 states"),
        ((4, 0), "1 position"),
        ((4, 4, 10, 1, 4), "4 heads divide"),
    ):
        with pytest.raises(InputError, match=message):
            Transformer(*sizes)


@pytest.mark.parametrize(
    ("shape", "together"), [((3,), 1), ((6,), 2), ((2, 12), 8)]
)  # of 6 positions 8 fit into a tile
@pytest.mark.parametrize("name", ["transformer", "DiT", "causal"])
def test_fused_attention_equals_plain_attention(name, shape, together, monkeypatch):
    """As on a GPU in half precision, where it is taken."""
    network, (x, r, t) = NETWORKS[name], batch(*shape)
    fused = []

    def count(*given, **options):
        fused.append(given[0].shape)
        return torch.nn.functional.scaled_dot_product_attention(*given, **options)

    def found():
        value = network(x, r, t)
        gradient = torch.autograd.grad(value.square().sum(), list(network.parameters()))
        calls = len(fused)
        slope = torch.func.jvp(lambda x: network(x, r, t), (x,), (torch.ones_like(x),))[1]
        assert len(fused) == calls  # which has no such derivative
        return [value, slope, *gradient]

    written_out = found()
    monkeypatch.setattr(transformer, "half_on_gpu", lambda x: True)
    monkeypatch.setattr(transformer, "scaled_dot_product_attention", count)
    for ours, theirs in zip(found(), written_out, strict=True):
        assert (ours - theirs).abs().max() < 1e-9 * (1 + theirs.abs().max())
    assert len(fused) == 2  # one in each layer
    assert fused[0][-2] == together * LENGTH


def test_stacked_networks_have_no_mask(monkeypatch):
    """Which torch's fused kernels would misread there."""
    network, seen = NETWORKS["DiT"], []

    def record(*given, **options):
        seen.append(len(given))
        return torch.nn.functional.scaled_dot_product_attention(*given, **options)

    monkeypatch.setattr(transformer, "half_on_gpu", lambda x: True)
    monkeypatch.setattr(transformer, "scaled_dot_product_attention", record)
    x, r, t = batch(2, 8)
    stacked = torch.func.vmap(network)(x, r, t)
    assert seen == [3, 3]  # query, key and value, in each layer
    assert (stacked - network(x, r, t)).abs().max() < 1e-9
    assert seen[2:] == [4, 4]


@pytest.mark.parametrize(
    ("length", "width", "heads", "efficient_alone"),
    [(64, 128, 2, True), (65, 128, 2, False), (9, 128, 1, False), (9, 24, 2, False)],
)
def test_short_sequences_of_narrow_heads_have_the_efficient_kernel(
    length, width, heads, efficient_alone
):
    """Alone: an order of kernels would be torch's own again at its first choice."""
    cuda = torch.backends.cuda
    with transformer.quick_attention(DiT(4, length, width, 1, heads), length):
        others = cuda.flash_sdp_enabled(), cuda.cudnn_sdp_enabled()
        assert cuda.mem_efficient_sdp_enabled()
        assert others == ((False, False) if efficient_alone else (True, True))


@pytest.mark.parametrize("name", ["DiT", "flat"])
def test_observed_positions_have_weights_of_their_own(name):
    """They get a gradient if and only if a position is observed."""
    network = copy.deepcopy(NETWORKS[name])
    x, r, t = batch(4)
    own = {"DiT": "observed_symbol.weight", "flat": "first.weight"}[name]
    for observed in (False, True):
        times = [s.expand(4, LENGTH).clone() for s in (r, t)]
        for time in times:
            time[:, 1] = 1.0 if observed else time[:, 1]
        gradient = torch.autograd.grad(
            network(x, *times).square().sum(), dict(network.named_parameters())[own]
        )[0]
        if name == "flat":  # per position: points, two times, observed points, mask
            gradient = gradient.unflatten(1, (LENGTH, -1))[:, 1, STATES + 2 :]
        assert bool(gradient.any()) == observed
