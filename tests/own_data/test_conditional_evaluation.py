"""Evaluation of conditional samples: completions of held-out records, and classes."""

import io
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import save_file

from discrete_meanflow import OneStepModel
from discrete_meanflow.cli.evaluation_tables import class_table, completions_table
from discrete_meanflow.errors import InputError
from discrete_meanflow.io.array_codec import ArrayCodec
from discrete_meanflow.io.labelled_codec import LabelledCodec
from discrete_meanflow.io.table.table_codec import TableCodec
from discrete_meanflow.metric import forest
from discrete_meanflow.model import advice, class_accuracy
from discrete_meanflow.model.class_accuracy import ClassAccuracy, score_classes
from discrete_meanflow.model.completions import AUC, PAIR_TV, UNSEEN, score_completions
from discrete_meanflow.model.conditional_samples import (
    STEPS,
    Condition,
    completion_name,
    conditions,
    masks,
    observed_counts,
    requested_classes,
)
from discrete_meanflow.model.eval_samples import (
    EvalSamples,
    EvalSplit,
    draw,
    load_samples,
    save_samples,
)
from discrete_meanflow.model.evaluate import evaluate
from discrete_meanflow.model.evaluation_grids import MOST_CLASSES, shown_classes
from discrete_meanflow.model.options import EvaluateOptions
from own_records import FILES, train_by_command, write
from problems import seeded
from test_cli import in_process

ROWS = [f"{k} step{'s' * (k > 1)}" for k in STEPS]
LABELLED = ["lines, classes", "table, classes", "array, classes"]


@pytest.fixture
def small_forests(monkeypatch):
    """Forests of few trees, where their quality does not matter."""
    grow = forest.random_forest
    monkeypatch.setattr(
        forest, "random_forest", lambda seed, trees=0, leaves=None: grow(seed, 20, leaves)
    )


@given(st.integers(2, 1000))
def test_observed_counts_are_the_promised_fractions(length):
    counts = observed_counts(ArrayCodec((length,), 2))
    promised = {"25 %": 0.25, "50 %": 0.5, "75 %": 0.75, "all but one": 1}
    limited = {name: min(length - 1, max(1, round(f * length))) for name, f in promised.items()}
    assert set(counts.values()) == set(limited.values())  # equal ones are listed once
    assert counts.items() <= limited.items()
    assert len(set(counts.values())) == len(counts)
    labelled = LabelledCodec(ArrayCodec((length,), 2), ("a", "b", "c"))
    assert observed_counts(labelled) == counts


@given(st.integers(1, 30), st.integers(2, 30), st.data())
def test_masks_observe_the_same_number_in_each_record(records, length, data):
    count = data.draw(st.integers(1, length - 1))
    observed = masks(records, length, count)
    assert observed.shape == (records, length)
    assert observed.sum(1).tolist() == [count] * records
    assert torch.equal(observed, masks(records, length, count))


def test_masks_observe_every_position_equally_often():
    share = masks(4000, 8, 3).double().mean(0)
    assert (share - 3 / 8).abs().max() < 0.05
    assert len(masks(4000, 8, 3).unique(dim=0)) == 56


def dependent(n, seed):
    """Rows whose columns are all equal, except for one cell in ten, and a column that adds two."""
    g = seeded(seed)
    noise = torch.randint(3, (n, 5), generator=g)
    noisy = torch.rand(n, 5, generator=g) < 0.1
    x = torch.where(noisy, noise, torch.randint(3, (n, 1), generator=g))
    x[:, 4] = (x[:, 0] + x[:, 1]) % 3
    return x.to(torch.uint8)


TABLE = TableCodec.of("vwxyz", [[cell] * 5 for cell in "abc"], label="z")
TRAIN, SPLIT = dependent(600, 0), EvalSplit(*dependent(600, 1).split(200))
ALL = conditions(TABLE, SPLIT.real, 30)


def eval_samples(change=lambda condition: condition.tokens):
    """Samples of an evaluation that are a function of their condition."""
    conditional = {name: change(condition) for name, condition in ALL.items()}
    return EvalSamples(EvaluateOptions(30, (1, 2)), {1: SPLIT.rest}, {}, {}, conditional, {})


def completion_scores(samples):
    main = {name: {AUC: value} for name, value in (("held out", 0.25), ("1 step", 0.75))}
    return score_completions(TABLE, TRAIN, SPLIT, samples, main)["fractions"]


def test_true_completions_score_like_held_out_records(small_forests):
    for name, fraction in completion_scores(eval_samples()).items():
        scores = fraction["scores"]
        assert set(scores) == {"held out", *ROWS, "unconditional, 1 step"}, name
        assert scores["held out"][AUC] == 0.25  # from the main table
        assert scores["unconditional, 1 step"][AUC] == 0.75
        assert scores["unconditional, 1 step"][PAIR_TV] != scores["held out"][PAIR_TV]
        for row in ROWS:
            for score in (PAIR_TV, UNSEEN):
                assert scores[row][score] == scores["held out"][score]
            assert abs(scores[row][AUC] - 0.5) < 0.15


def test_completions_that_ignore_the_condition_score_worse(small_forests):
    def ignorant(condition):
        return torch.where(condition.observed, condition.tokens, condition.tokens.roll(1, 0))

    true, worse = (completion_scores(eval_samples(f)) for f in (lambda c: c.tokens, ignorant))
    assert [fraction["observed positions"] for fraction in true.values()] == [1, 2, 4]
    for name, fraction in true.items():
        for row in ROWS:
            better, other = fraction["scores"][row], worse[name]["scores"][row]
            assert other[AUC] > better[AUC] + 0.1
            assert other[PAIR_TV] > better[PAIR_TV] + 0.1
            assert other[UNSEEN] >= better[UNSEEN]


def test_unseen_pairs_of_completions_look_up_the_training_set(small_forests):
    """Of rows whose columns are equal, a training set without noise has no other pairs."""
    clean = torch.arange(3)[:, None].repeat(1, 5).to(torch.uint8)
    split = EvalSplit(*clean.repeat(12, 1).split(12))
    shifted = split.real.roll(1, 1).roll(1, 0)
    for change, expected in ((split.real, 0), (shifted, 1)):
        conditional = {
            name: torch.where(c.observed, c.tokens, change)
            for name, c in conditions(replace(TABLE, label=None), split.real, 4).items()
        }
        samples = EvalSamples(EvaluateOptions(4), {}, {}, {}, conditional, {})
        found = score_completions(TABLE, clean, split, samples, {"held out": {AUC: 0.5}})
        for fraction in found["fractions"].values():
            assert [fraction["scores"][row][UNSEEN] for row in ROWS] == [expected] * 3


def test_class_accuracy_of_real_records_is_that_of_held_out_records():
    score = ClassAccuracy(TABLE, TRAIN, SPLIT.real)
    classes = TABLE.classes_in(SPLIT.real)
    assert score(SPLIT.real, classes) == score.real
    assert score.real["accuracy"] > 0.95
    assert set(score.real["per class"]) == {"a", "b", "c"}
    wrong = [{"a": "b", "b": "c", "c": "a"}[name] for name in classes]
    assert score(SPLIT.real, wrong)["accuracy"] < 0.05
    # The class column itself is not seen.
    other = SPLIT.real.clone()
    other[:, 4] = 0
    assert score(other, classes) == score.real


def test_class_accuracy_is_a_mean_over_the_classes_of_held_out_records():
    held_out = SPLIT.real[SPLIT.real[:, 4] != 2]
    score = ClassAccuracy(TABLE, TRAIN, held_out)
    a, b = (held_out[held_out[:, 4] == i] for i in (0, 1))
    c = SPLIT.real[SPLIT.real[:, 4] == 2]
    samples = torch.cat([a, b[:1], c])
    found = score(samples, ["a"] * len(a) + ["c"] + ["b"] * len(c))  # b and c are exchanged
    assert found["per class"].keys() == {"a", "b", "c"}
    assert found["per class"]["b"] < 0.1
    assert found["accuracy"] == (found["per class"]["a"] + found["per class"]["b"]) / 2


def test_classes_with_few_records_are_scored(small_forests):
    """One training record of class c, none of d, and none of either held out."""
    codec = LabelledCodec(ArrayCodec((4,), 3), tuple("abcd"))
    g = seeded()
    labels = torch.arange(60) % 2
    labels[0] = 2
    x = torch.randint(3, (60, 4), generator=g)
    x[:, 0] = labels
    train = codec.encode((x.numpy(), ["abcd"[i] for i in labels]))
    split = EvalSplit(train[30:40], train[40:50], train[50:])
    wanted = {n: c.tokens for n, c in conditions(codec, split.real, 8).items()}
    samples = EvalSamples(EvaluateOptions(8), {}, {}, {}, wanted, {})
    found = score_classes(codec, train, split, samples)
    assert found["samples"] == 8
    assert set(found["scores"]) == {
        "held out", *(f"{row}, guidance {w}" for row in ROWS for w in (1, 2))
    }  # fmt: skip
    assert set(found["scores"]["held out"]["per class"]) == {"a", "b"}
    assert set(found["scores"]["1 step, guidance 2"]["per class"]) == set("abcd")
    for row in found["scores"].values():
        assert all(0 <= value <= 1 for value in row["per class"].values())
    ratio = found["scores"]["1 step, guidance 1"]["ratio to held out"]
    accuracies = [found["scores"][row]["accuracy"] for row in ("1 step, guidance 1", "held out")]
    assert ratio == accuracies[0] / accuracies[1]


def test_forest_of_many_classes_is_bounded(monkeypatch):
    monkeypatch.setattr(class_accuracy, "MAX_LEAVES", 100 * 3 * 4)
    monkeypatch.setattr(class_accuracy, "MAX_FEATURES", 12 * 50)
    score = ClassAccuracy(TABLE, TRAIN, SPLIT.real)
    assert max(tree.get_n_leaves() for tree in score.forest.estimators_) == 4
    assert score.records == 50
    assert score.real["accuracy"] > 0.4


@given(st.integers(2, 20), st.integers(4, 60))
def test_each_class_is_requested_equally_often(classes, n):
    codec = LabelledCodec(ArrayCodec((2,), 3), tuple(f"{i:02d}" for i in range(classes)))
    names = requested_classes(codec, n)
    counts = {names.count(name) for name in names}
    assert len(counts) == 1
    assert min(counts) >= 1
    assert set(names) == set(codec.classes[:n])
    assert 0.6 * n <= len(names) <= 1.5 * n
    condition = conditions(codec, torch.zeros(4, codec.length).long(), n)[
        "classes: steps 4, guidance 2"
    ]
    assert codec.classes_in(condition.tokens) == names
    assert (condition.steps, condition.guidance) == (4, 2)
    assert bool(condition.observed[:, 2:].all())
    assert not bool(condition.observed[:, :2].any())


@given(st.tuples(*[st.floats(0.5, 1)] * 3))
def test_sufficient_steps_are_the_fewest_within_the_margin(costs):
    by_steps = dict(zip(STEPS, costs, strict=True))
    k = advice.sufficient_steps(by_steps)
    assert by_steps[k] <= min(costs) + advice.MARGIN
    assert all(by_steps[j] > min(costs) + advice.MARGIN for j in STEPS if j < k)


def advised(auc, accuracy, records=1000):
    fraction = {"scores": {row: {AUC: v} for row, v in zip(ROWS, auc, strict=True)}}
    scores = {f"{row}, guidance 1": {"accuracy": v} for row, v in zip(ROWS, accuracy, strict=True)}
    half = {"scores": {row: {AUC: 0.5} for row in ROWS}}
    completions = {"fractions": {"25 %": fraction, "50 %": half}}
    return advice.advise(completions, {"samples": records, "scores": scores}, records)


def test_advice_names_the_steps_that_suffice():
    """AUCs are averaged over two fractions, of which one is 0.5 at any number of steps."""
    assert advised((0.55, 0.5, 0.5), (0.9, 0.91, 0.92)) == []
    assert advised((0.82, 0.56, 0.52), (0.9, 0.91, 0.95)) == [
        "Conditional samples gain from more steps: C2ST AUC 0.66 at 1 step, 0.53 at 4; "
        "use dmf sample RUN --infill ... --steps 4",
        "Samples with a class gain from more steps: accuracy 0.90 at 1 step, 0.95 at 16; "
        "use dmf sample RUN --class ... --steps 16",
    ]
    assert advised((0.82, 0.56, 0.52), (0.9, 0.91, 0.95), advice.FEWEST_RECORDS - 1) == []
    assert advised((0.5, 0.9, 0.9), (0.9, 0.1, 0.1)) == []  # one step is best
    assert advice.advise({"note": "none"}, {}, 1000) == []


def test_of_many_classes_the_worst_are_shown():
    accuracy = {f"c{i}": i / 20 for i in range(20)}
    scores = {"1 step, guidance 1": {"per class": accuracy}}
    assert shown_classes(scores) == [f"c{i}" for i in range(MOST_CLASSES)]
    scores["1 step, guidance 1"]["per class"] = dict(reversed(accuracy.items()))
    assert shown_classes(scores) == [f"c{i}" for i in range(MOST_CLASSES)]
    scores["1 step, guidance 1"]["per class"] = {"b": 0.5, "a": 0.1}
    assert shown_classes(scores) == ["b", "a"]


def test_tables_fit_into_eighty_characters():
    names = ["[red]", "x" * 100, "[/]", *map(str, range(20))]
    row = {"accuracy": 0.5, "ratio to held out": 1.0, "per class": dict.fromkeys(names, 0.25)}
    scores = {f"{step}, guidance {w}": row for step in ROWS for w in (1, 2)}
    scores["held out"] = {"accuracy": 0.5, "per class": {"[red]": 0.75}}  # the others have none
    cells = {AUC: 0.5, PAIR_TV: None, UNSEEN: 0.125}
    rows = {name: cells for step in ROWS for name in (step, f"unconditional, {step}")}
    fraction = {"observed positions": 1, "scores": {"held out": cells} | rows}
    fractions = dict.fromkeys(("25 %", "50 %", "75 %", "all but one"), fraction)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(completions_table("Completions", fractions))
    console.print(class_table(scores))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= 80
    assert len(lines) == 2 + 3 * 4 + 1 + 3 + MOST_CLASSES
    assert "all but one    0.500 0.500 (0.500)" in lines[5]
    assert lines[9].split() == ["all", "but", "one"]
    assert any(line.split() == ["[red]", "0.750", "0.250", "0.250"] for line in lines)


@pytest.mark.parametrize("name", [*FILES, *LABELLED])
def test_every_run_has_an_evaluation_of_conditions(
    name, small_forests, tmp_path, monkeypatch, capsys
):
    kind, *classes = name.split(", ")
    path, out, words = write(tmp_path, kind), tmp_path / "run", ["--held-out", 10]
    words += ["--length", 8] if kind == "windows" else []
    if classes and kind != "table":
        count = {"array": 60, "lines": 48}[kind]
        (tmp_path / "classes").write_text("\n".join("red" if i % 3 else "up" for i in range(count)))
    words += ["--label", "letter" if kind == "table" else tmp_path / "classes"] * bool(classes)
    model = train_by_command(monkeypatch, capsys, path, out, *words)
    options = ("-n", 5, "--steps", 1)
    code, shown, err = in_process(monkeypatch, capsys, "evaluate", out, *options)
    assert code == 0, err
    evaluation = json.loads((out / "evaluation.json").read_text())
    codec, saved = model.config.codec, load_samples(out, model.config, EvaluateOptions(5, (1,)))
    real = EvalSplit.read(out, codec, 5).real
    for fraction, count in observed_counts(codec).items():
        observed = masks(5, codec.bare.length, count)
        for k in STEPS:
            completed = saved.conditional[completion_name(count, k)][:, : codec.bare.length]
            assert torch.equal(completed[observed], real[:, : codec.bare.length][observed])
        scores = evaluation["completions"]["fractions"][fraction]["scores"]
        assert set(scores) == {"held out", *ROWS, "unconditional, 1 step"}
        assert f" {fraction} " in shown
    assert bool(evaluation["classes"]) is bool(classes)
    if classes:
        requested = requested_classes(codec, 5)
        assert codec.classes_in(saved.conditional["classes: steps 4, guidance 2"]) == requested
        assert "mean, 16 steps" in shown
    tables = [line for line in shown.splitlines() if line.startswith(("C2ST AUC  ", "   ", "mean"))]
    assert tables
    assert max(map(len, tables)) <= 80
    assert (out / "evaluation.png").read_bytes()[1:4] == b"PNG"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    rows = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    folder = tmp_path_factory.mktemp("labelled") / "run"
    options = {"iterations": 20, "size": 1e4, "held_out": 16, "device": "cpu"}
    return OneStepModel.fit(rows, labels=[row[0] for row in rows], out=folder, **options)


def test_conditions_draw_what_sample_draws(labelled):
    """With their number of steps and guidance."""
    codec, parts = labelled.config.codec, (labelled.kernel, labelled.config, 3)
    tokens, observed = (part.expand(40, -1) for part in codec.infill(None, "a"))
    samples = {
        (k, guidance): codec.decode(Condition(tokens, observed, k, guidance).draw(*parts))
        for k in (1, 4)
        for guidance in (1.0, 60.0)
    }
    for (k, guidance), records in samples.items():
        assert records == labelled.sample(40, k, seed=3, label="a", guidance=guidance)
    assert len(set(map(tuple, samples.values()))) == 4


def test_saved_conditional_samples_are_checked(labelled, small_forests, tmp_path):
    folder, options = tmp_path / "run", EvaluateOptions(8, (1,))
    labelled.save(folder)
    samples = draw(folder, labelled.config, labelled.kernel, options)
    save_samples(folder, labelled.config, samples)
    path = folder / "samples.safetensors"
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    direct, loaded = labelled.evaluate(8, (1,)), load_samples(folder, labelled.config, options)
    assert evaluate(folder, labelled.config, loaded) == direct
    assert direct["completions"]["fractions"].keys() == {"25 %", "50 %"}  # of three positions
    assert len(loaded.conditional) == 2 * 3 + 3 * 2
    vocabulary = labelled.config.codec.vocabulary
    for name in samples.conditional:
        x = tensors[name]
        for wrong in (x[:-1], (x + 1) % vocabulary, x + 100, x[:, :-1]):
            save_file(tensors | {name: wrong.contiguous()}, path, metadata)
            with pytest.raises(InputError, match=r"samples\.safetensors") as caught:
                load_samples(folder, labelled.config, options)
            assert "\n" not in str(caught.value)
        save_file({k: v for k, v in tensors.items() if k != name}, path, metadata)
        with pytest.raises(InputError, match="unexpected tensor names"):
            load_samples(folder, labelled.config, options)


def test_records_of_one_position_have_no_completions(small_forests, tmp_path, monkeypatch, capsys):
    path = tmp_path / "one.csv"
    path.write_text("colour\n" + "red\nblue\ngrey\n" * 20)
    model = train_by_command(
        monkeypatch, capsys, path, tmp_path / "run", "--header", "yes", "--held-out", 20
    )
    found = model.evaluate(8, (1,))
    assert set(found["completions"]) == {"note"}
    code, shown, err = in_process(
        monkeypatch, capsys, "evaluate", tmp_path / "run", "-n", 8, "--steps", 1
    )
    assert code == 0, err
    assert "completions: records of one position have nothing to condition on" in shown
