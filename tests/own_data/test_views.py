"""Records as pages show them."""

import json
from xml.etree import ElementTree

import numpy
import pytest
import torch

import discrete_meanflow as dmf
from discrete_meanflow.io.layout import Arrangement
from discrete_meanflow.model.run_folder import read_config
from discrete_meanflow.model.tensor_files import read_tokens
from discrete_meanflow.model.views import layout_view, record_views
from own_records import FILES

ARRANGED = {"table": Arrangement.ROW, "array": Arrangement.GRID}  # all others are text


@pytest.mark.parametrize("kind", FILES)
def test_views_show_the_records_themselves(trained, kind):
    config = read_config(trained / kind)
    codec, layout = config.codec, config.codec.layout
    tokens = read_tokens(trained / kind / "train.safetensors", codec)[:7]
    views = record_views(config, tokens)
    assert json.loads(json.dumps(views)) == views
    assert layout.arrangement == ARRANGED.get(kind, Arrangement.TEXT)
    assert layout_view(config)["arrangement"] == layout.arrangement.value
    assert len(layout.positions) == codec.length
    assert len(layout.symbols) in (1, codec.length)
    for view, record in zip(views, codec.decode(tokens), strict=True):
        cells = [layout.symbols_at(i)[token] for i, token in enumerate(view["tokens"])]
        if layout.arrangement is Arrangement.TEXT:
            assert view["text"] == record
            assert "".join(cells[: codec.count(record)]) == record
        elif layout.arrangement is Arrangement.ROW:
            assert cells == list(record)
        else:
            assert numpy.array_equal(numpy.array(cells, int).reshape(layout.shape), record)


def test_molecules_are_drawn_where_they_are_valid(trained):
    config = read_config(trained / "smiles")
    symbols = config.codec.layout.symbols_at(0)
    tokens = torch.full((2, config.codec.length), config.codec.layout.pad)
    tokens[0, 0] = symbols.index("C")
    drawn, empty = record_views(config, tokens)
    assert drawn["valid"]
    assert not empty["valid"]
    assert not empty["svg"]
    assert ElementTree.fromstring(drawn["svg"]).tag.endswith("svg")


def test_views_show_classes():
    images = numpy.random.default_rng(0).integers(0, 2, (60, 3, 3))
    model = dmf.OneStepModel.fit(images, iterations=4, size=1e4, labels=["a", "b"] * 30)
    tokens = read_tokens(model.folder / "train.safetensors", model.config.codec)[:5]
    views = record_views(model.config, tokens)
    assert [view["class"] for view in views] == model.config.codec.classes_in(tokens)
    assert layout_view(model.config)["classes"] == ["a", "b"]
    assert layout_view(model.config)["class positions"] == [9]
