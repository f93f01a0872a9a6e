"""The finite chain in a browser: controls move, and the numbers are those of Python."""

import pytest
import torch
from browsing import shown, slide
from test_chain_numbers import generator_of

from discrete_meanflow import identity_residual, mean_rate, transition
from discrete_meanflow.ctmc import paper_chains, ring


def matrix(page, title):
    """The numbers of a heatmap, from what the pointer shows."""
    rows = page.locator(f"table[aria-label='{title}'] tbody tr").all()
    titles = [row.locator("td").evaluate_all("cells => cells.map((c) => c.title)") for row in rows]
    return torch.tensor(
        [[float(text.rpartition("= ")[2]) for text in row] for row in titles]
    ).double()


def texts(page, title):
    return page.locator(f"table[aria-label='{title}'] td").all_inner_texts()


def close(a, b):
    return torch.allclose(a, b, rtol=1e-5, atol=1e-12)


def test_matrices_are_those_of_python(chain, client):
    slide(chain, "t", 0.83)
    slide(chain, "r", 0.27)
    chain.select_option("#start", "2")
    question = shown(chain, "chain", r=0.27, t=0.83, start=2)
    u, exact = ring(), transition(ring(), 0.27, 0.83)
    assert close(matrix(chain, "True kernel K"), exact)
    assert close(matrix(chain, "Mean rate ū"), mean_rate(u, 0.27, 0.83))
    written = [float(text.replace("−", "-")) for text in texts(chain, "True kernel K")]
    assert torch.allclose(torch.tensor(written).double(), exact.flatten(), atol=6e-4)
    learned = client.post("/api/chain", json=question).json()["learned"]
    for title, name in (("Learned kernel Kθ", "kernel"), ("Difference Kθ − K", "difference"),
                        ("Learned residual", "residual")):  # fmt: skip
        assert close(matrix(chain, title), torch.tensor(learned[name]).double())
    residual = float(chain.inner_text("#learned-residual"))
    assert residual == pytest.approx(max(abs(x) for row in learned["residual"] for x in row), 0.05)
    exact_residual = identity_residual(u, 0.27, 0.83).abs().max().item()
    assert float(chain.inner_text("#exact-residual")) == pytest.approx(exact_residual, rel=0.05)


def test_charts_are_those_of_python(chain, client):
    slide(chain, "t", 0.4)
    slide(chain, "draws", 300)
    chain.press("#draws", "Enter")
    question = shown(chain, "chain", t=0.4, draws=300)
    view = client.post("/api/chain", json=question).json()
    bars, marks = chain.evaluate("document.getElementById('histogram').data.map((d) => [...d.y])")
    assert bars == view["learned"]["samples"]
    assert marks == transition(ring(), 0.0, 0.4)[:, 0].tolist()
    assert f"law {view['learned']['tv']:.4f}" in chain.inner_text("#samples-note")
    areas = chain.evaluate("document.getElementById('flow').data.slice(0, 3).map((d) => [...d.y])")
    times = torch.linspace(0, 1, 65, dtype=torch.float64)
    assert areas == transition(ring(), 0.0, times)[..., 0].T.tolist()
    line, axis = (chain.locator(part).bounding_box() for part in ("#now", "#flow .nsewdrag"))
    assert line["x"] + 1 == pytest.approx(axis["x"] + 0.4 * axis["width"], abs=1)
    assert (line["y"], line["height"]) == pytest.approx((axis["y"], axis["height"]), abs=1)


def test_handles_move_by_keys_and_do_not_cross(chain):
    chain.focus("#t")
    chain.keyboard.press("ArrowLeft")
    shown(chain, "chain", t=0.59)
    chain.focus("#r")
    chain.keyboard.press("End")
    shown(chain, "chain", r=0.58, t=0.59)
    assert chain.inner_text("label[for=r]") == "r = 0.58"


def test_handles_are_dragged(chain):
    track = chain.locator(".track").bounding_box()
    y = track["y"] + track["height"] / 2
    place = lambda share: track["x"] + 10 + share * (track["width"] - 20)  # noqa: E731
    moves = (("t", 0.6, 0.9), ("r", 0.0, 0.3), ("t", 0.9, 1), ("r", 0.3, 0.99), ("r", 0.99, 0.4))
    for name, start, end in moves:  # the last one starts where the handles overlap
        chain.mouse.move(place(start), y)
        chain.mouse.down()
        chain.mouse.move(place(end), y, steps=4)
        chain.mouse.up()
        assert float(chain.input_value(f"#{name}")) == pytest.approx(end, abs=0.015)


def test_edited_rates_are_followed_by_the_exact_kernel(chain, ring_rates):
    chain.fill("[aria-label='rate from 0 to 1']", "7.5")
    rates = [row[:] for row in ring_rates]
    rates[1][0] = 7.5
    shown(chain, "chain", rates=rates)
    assert close(matrix(chain, "True kernel K"), transition(generator_of(rates), 0, 0.6))
    assert set(texts(chain, "Learned kernel Kθ")) == {"–"}
    assert chain.locator("#train").is_visible()
    assert chain.inner_text("#rates .diagonal >> nth=0") == "−8.5"
    for wrong in ("-1", "51", ""):
        chain.fill("[aria-label='rate from 0 to 1']", wrong)
        assert chain.get_attribute("[aria-label='rate from 0 to 1']", "aria-invalid") == "true"
    assert shown(chain, "chain")["rates"] == rates


def test_clicked_column_is_the_start(chain):
    chain.click("table[aria-label='True kernel K'] td[data-x='1'] >> nth=0")
    shown(chain, "chain", start=1)
    assert chain.input_value("#start") == "1"


@pytest.mark.parametrize("name", paper_chains())
def test_every_chain_is_shown(name, open_page, chain):
    if name == "ring":
        return  # its kernel is the only one that is trained here
    u = paper_chains()[name]
    rates = (u.matrix - torch.diag(u.matrix.diagonal())).tolist()
    chain.route("**/api/chain/train", lambda route: route.fulfill(json={}))
    chain.select_option("#preset", name)
    shown(chain, "chain", rates=[[int(x) if x == int(x) else x for x in row] for row in rates])
    assert close(matrix(chain, "True kernel K"), transition(u, 0, 0.6))
    cut = "cells => cells.filter((c) => c.scrollWidth > c.clientWidth).map((c) => c.textContent)"
    assert chain.locator("#heatmaps td").evaluate_all(cut) == []
    chain.unroute("**/api/chain/train")
