"""Random forests and gradient boosting, which compare and classify records."""

import importlib.util
from typing import Any

import torch
from torch import Tensor

from discrete_meanflow.errors import InputError
from discrete_meanflow.types import State

MAX_ONE_HOT = 64  # symbols up to which a forest sees one-hot features
TREES = 200


def features(x: State, symbols: int) -> Tensor:
    """One boolean per position and symbol if there are few symbols, else the tokens."""
    # torch's one_hot would use eight bytes for each.
    return (x[..., None] == torch.arange(symbols)).flatten(1) if symbols <= MAX_ONE_HOT else x


def check_scikit_learn() -> None:
    """Raise if scikit-learn is missing."""
    if importlib.util.find_spec("sklearn") is None:
        raise InputError("the random forest needs: pip install scikit-learn")


def random_forest(seed: int, trees: int = TREES, max_leaf_nodes: int | None = None) -> Any:
    """An untrained random forest on all cores."""
    check_scikit_learn()
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        trees, max_leaf_nodes=max_leaf_nodes, random_state=seed, n_jobs=-1
    )


def boosting(seed: int, iterations: int = 100) -> Any:
    """An untrained classifier by gradient boosting."""
    check_scikit_learn()
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=iterations, random_state=seed)


def boosted_numbers(seed: int, iterations: int = 100) -> Any:
    """An untrained regressor by gradient boosting."""
    check_scikit_learn()
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=iterations, random_state=seed)


def auc(positive: Tensor, score: Any) -> float:
    """Area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(positive.numpy(), score))
