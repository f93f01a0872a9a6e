"""The page in a browser computes what Python samples, and keeps what the visitor fixes."""

import math

import numpy
import pytest
import torch

from discrete_meanflow.errors import InputError
from discrete_meanflow.model.export import Step
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.sampler import KernelSampler
from pages import ask, fill, settle

RECORDS = 6
GENERATE = """
const [noise, tokens, observed] = given;
const result = await window.dmf.generate(noise.flat(2), tokens.flat(), observed.flat());
return [Array.from(result.tokens), Array.from(result.probabilities)];
"""


@pytest.mark.parametrize("kind", ["lines", "table", "array"])
def test_browser_computes_what_python_samples(kind, show):
    """Given the same noise and observed positions: the same probabilities and tokens."""
    model, page = show(kind)
    codec, g = model.config.codec, torch.Generator().manual_seed(1)
    noise = torch.randn(RECORDS, codec.length, codec.vocabulary, generator=g)
    known = read_tokens(model.folder / "train.safetensors", codec)[:RECORDS].long()
    observed = torch.rand(known.shape, generator=g) < 0.3
    tokens, laws = ask(page, GENERATE, noise.tolist(), known.tolist(), observed.tolist())
    sampled = KernelSampler(model.kernel).sample(noise, g, known, observed)
    assert len(sampled.unique(dim=0)) > 2  # else the comparison would mean little
    assert tokens == sampled.flatten().tolist()
    step = Step(model.kernel.for_step(0, 1), codec.vocabulary)
    with torch.no_grad():
        exact = step(noise, known, observed)
    assert numpy.allclose(laws, exact.flatten(), rtol=0, atol=1e-4)
    assert torch.equal(sampled[observed], known[observed])


def xoshiro(seed):
    """xoshiro128** seeded by splitmix32, after the reference code in C."""
    mask, state = 2**32 - 1, []
    for _ in range(4):
        seed = (seed + 0x9E3779B9) & mask
        z = ((seed ^ seed >> 16) * 0x21F0AAAD) & mask
        z = ((z ^ z >> 15) * 0x735A2D97) & mask
        state.append(z ^ z >> 15)
    rotate = lambda x, k: (x << k | x >> 32 - k) & mask  # noqa: E731
    while True:
        a, b, c, d = state
        yield rotate(b * 5 & mask, 7) * 9 & mask
        c, d = c ^ a, d ^ b
        state = [a ^ d, b ^ c, c ^ (b << 9 & mask), rotate(d, 11)]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_noise_is_the_named_generator(seed, show):
    """Box-Muller pairs of xoshiro128**."""
    _, page = show("lines")
    noise = ask(page, "return Array.from(window.dmf.noise(given[0], 2))", seed)
    uniform = ((number + 0.5) / 2**32 for number in xoshiro(seed))
    exact = []
    while len(exact) < len(noise):
        radius, angle = math.sqrt(-2 * math.log(next(uniform))), 2 * math.pi * next(uniform)
        exact += [radius * math.cos(angle), radius * math.sin(angle)]
    assert numpy.array_equal(numpy.float32(noise), numpy.float32(exact[: len(noise)]))


def test_noise_is_normal(show):
    scipy = pytest.importorskip("scipy.stats")
    _, page = show("lines")
    noise = ask(page, "return Array.from(window.dmf.noise(5, 500))")
    assert scipy.kstest(noise, "norm").pvalue > 1e-6
    assert scipy.kstest(noise[::2], noise[1::2]).pvalue > 1e-6


def records(page):
    return page.locator("#records > *").evaluate_all("rows => rows.map((row) => row.ariaLabel)")


def test_seed_determines_the_records(show):
    model, page = show("lines")
    first = records(page)
    settle(page, lambda: page.click("text=Sample"))
    assert page.input_value("#seed") == "2"
    second = records(page)
    assert second != first
    fill(page, count=7)
    assert records(page) == second[:7]
    fill(page, seed=1)
    assert records(page) == first[:7]
    # They are those of the sampler for this noise.
    codec = model.config.codec
    noise = torch.tensor(ask(page, "return Array.from(window.dmf.noise(1, 7))"))
    noise = noise.reshape(7, codec.length, codec.vocabulary)
    sampled = KernelSampler(model.kernel).sample(noise, torch.Generator())
    assert codec.decode(sampled) == first[:7]


def test_text_ends_as_the_codec_ends_it(show):
    """Pads at the end are no text, others are visible."""
    model, page = show("lines")
    codec, g = model.config.codec, torch.Generator().manual_seed(0)
    tokens = torch.randint(codec.vocabulary, (40, codec.length), generator=g)
    tokens[torch.rand(tokens.shape, generator=g) < 0.5] = codec.pad
    texts = ask(page, "return given[0].map((tokens) => window.dmf.text(tokens))", tokens.tolist())
    assert texts == codec.decode(tokens)
    assert any("_" in text for text in texts)


def test_subwords_end_at_the_first_pad(show):
    _, page = show("lines")
    body = """
    const { Layout } = await import("./layout.js");
    const layout = new Layout({ ...given[0], "class positions": [] });
    return layout.text(Int32Array.from([0, 2, 1]));
    """
    layout = {"positions": ["1", "2", "3"], "symbols": [["a", "b", ""]], "pad": 2,
              "arrangement": "text", "subwords": True, "length": 3, "vocabulary": 3}  # fmt: skip
    assert ask(page, body, layout) == "a"
    assert ask(page, body, layout | {"subwords": False}) == "ab"


PATTERNS = [
    "",
    "ae",
    "?f",
    "a??",
    "_",
    "ae_",
    "ae_?",
    "a_e",
    "z",
    "aeijkk",
    "a\\?",
    "a\\",
    "b\\n",
    "??i_",
]


def parsed(codec, pattern):
    try:
        return sorted(codec.parse_infill(pattern).items())
    except InputError:
        return None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_mean_what_they_mean_in_python(pattern, show, typed):
    """And the pattern that describes what is fixed fixes the same."""
    model, again = typed
    exact = parsed(model.config.codec, pattern)
    tokens, rewritten = again(pattern)
    assert tokens == (None if exact is None else [list(pair) for pair in exact])
    if exact is not None:
        assert parsed(model.config.codec, rewritten) == exact


@pytest.fixture
def typed(show):
    """Parse a pattern and write it again."""
    model, page = show("lines")
    body = """
    const { parsePattern, formatPattern } = await import("./pattern.js");
    const { Conditions } = await import("./conditions.js");
    const conditions = new Conditions(window.dmf.layout);
    try {
      const pairs = parsePattern(given[0], window.dmf.layout);
      conditions.replaceRecord(pairs);
      return [pairs, formatPattern(conditions)];
    } catch (error) {
      return [null, error.message];
    }
    """
    return model, lambda pattern: ask(page, body, pattern)


def test_clicked_position_stays_in_all_records(show):
    """Until it is clicked again, whatever the seed."""
    _, page = show("lines")
    before = records(page)
    position = next(i for i, symbol in enumerate(before[3]) if symbol != "_")
    symbol = before[3][position]
    cell = page.locator(f"#records [data-record='3'] [data-position='{position}']")
    settle(page, cell.click)
    assert {text[position] for text in records(page)} == {symbol}
    assert page.locator("#records .fixed").count() == len(before)
    assert page.input_value("#pattern") == "?" * position + symbol
    settle(page, lambda: page.click("text=Sample"))
    assert {text[position] for text in records(page)} == {symbol}
    fill(page, seed=1)
    settle(page, cell.click)
    assert records(page) == before


def test_clicked_pad_ends_all_records(show):
    """As in a pattern, all positions after it become pads."""
    _, page = show("lines")
    before = records(page)
    position = next(text for text in before if "_" in text).index("_")
    record = next(i for i, text in enumerate(before) if "_" in text)
    cell = page.locator(f"#records [data-record='{record}'] [data-position='{position}']")
    settle(page, cell.click)
    assert max(map(len, records(page))) <= position
    settle(page, lambda: page.locator("#records .end.fixed").first.click())
    assert records(page) == before


def test_typed_pattern_stays_in_all_records(show):
    _, page = show("lines")
    settle(page, lambda: page.fill("#pattern", "b?_"))
    assert {text[0] for text in records(page)} == {"b"}
    assert {len(text) for text in records(page)} == {1, 2}
    page.fill("#pattern", "z")
    assert "position 1 cannot be “z”" in page.inner_text("#pattern-help")
    settle(page, lambda: page.click("text=Clear fixed"))
    assert page.input_value("#pattern") == ""
    assert page.is_disabled("#release")


def test_keys_fix_positions(show):
    _, page = show("lines")
    page.focus("#records")
    for key in ("PageUp",) * 24 + ("Home", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert "Position 2 of record 2" in page.inner_text("#panel h2")
    symbol = page.locator("#cursor").inner_text()
    settle(page, lambda: page.keyboard.press("Enter"))
    assert {text[1] for text in records(page)} == {symbol}
    assert page.inner_text("#panel dd") == "100 %"


def test_panel_shows_the_law_of_a_position(show):
    model, page = show("table")
    page.hover("#records [data-record='2'] [data-position='1']")
    assert page.inner_text("#panel h2") == "letter of record 3"
    rows = page.locator("#panel dd").all_inner_texts()
    shares = [float(text.removesuffix(" %")) for text in rows]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=1)
    shown = page.inner_text("#records [data-record='2'] [data-position='1']")
    assert page.locator("#panel dt").first.inner_text() == shown
    assert len(rows) <= model.config.codec.columns[1].leaves


def test_chosen_level_stays_in_the_column(show):
    _, page = show("table")
    settle(page, lambda: page.select_option("[aria-label='fix colour']", label="grey"))
    column = page.locator("#records [data-position='0']").all_inner_texts()
    assert set(column) == {"grey"}
    assert set(page.locator("#records [data-position='2']").all_inner_texts()) == {"same"}


def test_chosen_class_stays_in_all_records(show):
    """Its number has two digits in base 3."""
    model, page = show("array")
    for name in model.config.codec.class_names:
        settle(page, lambda name=name: page.select_option("#class", label=name))
        assert set(page.locator("#records .class").all_inner_texts()) == {name}
    settle(page, lambda: page.select_option("#class", value=""))
    assert len(set(page.locator("#records .class").all_inner_texts())) > 1


def test_painted_pixels_stay_in_all_records(show):
    _, page = show("array")
    page.select_option("#brush", "1")
    box = page.locator(".easel").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + 5, steps=8)  # the first row
    settle(page, page.mouse.up)
    pixels = page.locator("#records canvas").nth(4)
    for x in (5, 60, 100):
        pixels.hover(position={"x": x, "y": 5})
        assert page.inner_text("#panel p") == "fixed"
        assert page.locator("#panel dt").all_inner_texts() == ["1"]
    pixels.hover(position={"x": 5, "y": 60})
    assert page.inner_text("#panel p") == "generated"


def test_page_says_that_it_needs_a_server(browser, exported):
    model, page = exported[0]["lines"], browser.new_page()
    page.goto((model.folder.parent.parent / "lines" / "index.html").as_uri())
    assert "python -m http.server" in page.inner_text("#status")
