"""The server of the page: its files, and the numbers it asks for."""

import importlib.util
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import torch
from fastapi import FastAPI, Path as Part, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response

from discrete_meanflow import web
from discrete_meanflow.ctmc import paper_chains
from discrete_meanflow.errors import InputError
from discrete_meanflow.explore import questions
from discrete_meanflow.explore.chain_view import chain_view
from discrete_meanflow.explore.guard import Guard
from discrete_meanflow.explore.learner import Learner
from discrete_meanflow.explore.run_view import RunView
from discrete_meanflow.pretrained import pretrained_folder, pretrained_names
from discrete_meanflow.run.json_files import Json

HERE, SHARED = Path(__file__).parent / "static", Path(web.__file__).parent / "static"
SUFFIXES = {".js", ".css", ".svg"}
FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
ALWAYS_NEW = {"cache-control": "no-cache"}


def create_app(runs: Sequence[Path] = (), chain: str | None = None) -> FastAPI:
    """The application.

    Args:
        runs: run folders; by default, the models that ship with the package.
        chain: the chain to show first; without it, the page shows the runs first.
    """
    views = [RunView(Path(run)) for run in runs or map(pretrained_folder, pretrained_names())]
    learner = Learner()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        learner.stop()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(Guard)
    _report_errors(app)
    _serve_files(app)
    _serve_numbers(app, views, learner, chain)
    return app


def _report_errors(app: FastAPI) -> None:
    """Answer invalid questions with one line. The default repeats the input, such as NaN."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        message = first["msg"].removeprefix("Value error, ")
        return JSONResponse({"error": f"{place}: {message}".lstrip(": ")}, 422)

    @app.exception_handler(InputError)
    async def refused(request: Request, error: InputError) -> Response:
        return JSONResponse({"error": str(error)}, 422)


def _serve_files(app: FastAPI) -> None:
    """Serve a fixed list of files, so that no path leads elsewhere."""
    plotly = f"plotly-{version('plotly')}.min.js"
    page = (HERE / "index.html").read_text(encoding="utf-8").replace("plotly.min.js", plotly)
    files = {
        f"/{folder.parent.name}/{path.name}": path
        for folder in (HERE, SHARED)
        for path in folder.iterdir()
        if path.suffix in SUFFIXES
    }

    @app.get("/")
    def index() -> Response:
        return Response(page, media_type="text/html", headers=ALWAYS_NEW)

    for name, path in files.items():
        app.get(name)(_file(path, ALWAYS_NEW))
    app.get(f"/{plotly}")(_file(plotly_script(), FOREVER))


def _file(path: Path, headers: dict[str, str]) -> Callable[[], Response]:
    return lambda: FileResponse(path, headers=headers)


def plotly_script() -> Path:
    """The JavaScript that ships inside the Python package plotly, which is not imported."""
    spec = importlib.util.find_spec("plotly")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def _serve_numbers(
    app: FastAPI, views: Sequence[RunView], learner: Learner, chain: str | None
) -> None:
    """Serve what the page asks for. A few questions are answered at a time; others wait."""
    cores = threading.BoundedSemaphore(os.cpu_count() or 1)
    Run = Annotated[int, Part(ge=0, lt=len(views))]

    @app.get("/api/start")
    def start() -> Response:
        return JSONResponse({**start_view(views), "chain": chain})

    @app.post("/api/chain")
    def ask_chain(question: questions.ChainQuestion) -> Response:
        rates = questions.ChainRates(rates=question.rates)
        with cores:
            view = chain_view(question, learner.kernel(rates))
        return JSONResponse({**view, "training": learner.state(rates)})

    @app.post("/api/chain/train")
    def train(rates: questions.ChainRates) -> Response:
        learner.train(rates)
        return JSONResponse(learner.state(rates))

    @app.post("/api/runs/{run}/samples")
    def ask_samples(run: Run, question: questions.SampleQuestion) -> Response:
        with cores:
            return JSONResponse({"columns": views[run].columns(question)})


def start_view(views: Sequence[RunView]) -> Json:
    """What the page reads once: chains, runs and bounds."""
    matrices = {name: generator.at(torch.tensor(0.0)) for name, generator in paper_chains().items()}
    return {
        "chains": {name: (u - u.diag().diag()).tolist() for name, u in matrices.items()},
        "runs": [view.facts for view in views],
        "bounds": {
            "rate": questions.LARGEST_RATE,
            "draws": questions.MOST_DRAWS,
            "steps": questions.MOST_STEPS,
            "shortest": questions.SHORTEST,
        },
    }
