"""Settings that experiments, figures and tables share. Imports no torch."""

STEPS = (1, 2, 4, 8)  # numbers of sampling steps on synthetic data; measurements are in this order
REAL_STEPS = (1, 2, 4, 8, 16, 64)  # numbers of sampling steps for joint distributions
CHAIN_GRID = 20  # points of the (r, t) grid on which chain kernels are compared

FLOW_MAP, FACTORISED = "flow map", "factorised"  # kinds of kernels for joint distributions
KINDS = (FLOW_MAP, FACTORISED)

OURS = "one-step"  # the method that users get by default

# Weight lambda of the hybrid loss -> name of the objective.
LAMBDAS = {"0": "KR", "0.1": "KR + 0.1 CE", "1": "KR + 1 CE", "10": "KR + 10 CE", "inf": "KCE"}

ESTIMATORS = ("KR", "KR, 8 samples", "KR, Rao-Blackwell", "KR, weighted", "KR, KL form")
BASELINES = ("PR", "PR, batch 256", "KCE")
BEST = "KR, KL form"


def method_of(cell: str) -> str:
    """The method that a cell of a comparison trains."""
    return cell.rpartition(", method ")[2]
