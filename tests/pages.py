"""Random generators for exported pages, and what pages are made from."""

import json

import torch

from discrete_meanflow import OneStepModel
from discrete_meanflow.io import kinds
from discrete_meanflow.io.labelled_codec import add_classes
from discrete_meanflow.model.options import FitOptions
from discrete_meanflow.model.prepare import prepare
from discrete_meanflow.model.run_folder import write_weights
from discrete_meanflow.training import Distributed
from discrete_meanflow.web.runtime import FILES, PACKAGE
from own_records import write

TINY = FitOptions(iterations=4, size=1e4, batch=16, matching="yes")


def random_run(folder, kind, classes=0):
    """A run whose weights are random: its records are nonsense, but they differ."""
    folder.mkdir(parents=True)
    chosen = kinds.KINDS[kind]()
    dataset = chosen.read(write(folder, kind))
    if classes:
        count = len(dataset.records)
        dataset = add_classes(dataset, [f"class {i % classes}" for i in range(count)])
    config, _ = prepare(folder / kind, chosen, dataset, TINY, Distributed())
    torch.manual_seed(0)
    kernel = config.plan.kernel(config.codec)
    for p in kernel.parameters():
        torch.nn.init.normal_(p, std=0.3)
    write_weights(folder / kind, kernel)
    return OneStepModel.load(folder / kind, "cpu")


def write_package(folder, version="1.20.0"):
    """A folder that looks like the npm package, for tests that run no browser."""
    (folder / "dist").mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": PACKAGE, "version": version}))
    for name in FILES:
        (folder / "dist" / name).write_text(name)
    return folder


def ask(page, body, *values):
    """The value of JavaScript, whose array ``given`` contains the values."""
    return page.evaluate(f"async (given) => {{ {body} }}", list(values))


def settle(page, action=lambda: None):
    """Do something that starts a pass, and wait for its records."""
    action()
    page.locator("#output[aria-busy=false]").wait_for()


def fill(page, **fields):
    """Type values into fields, with Enter after each."""
    for name, value in fields.items():
        page.fill(f"#{name}", str(value))
        settle(page, lambda name=name: page.press(f"#{name}", "Enter"))
