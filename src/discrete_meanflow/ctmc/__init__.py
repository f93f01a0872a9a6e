"""Exact mathematics of finite continuous-time Markov chains (CTMCs), in float64."""

from discrete_meanflow.ctmc.chains import (
    birth_death as birth_death,
    from_rates as from_rates,
    paper_chains as paper_chains,
    ring as ring,
    tilting_birth_death as tilting_birth_death,
    two_state as two_state,
)
from discrete_meanflow.ctmc.generator import (
    ConstantGenerator as ConstantGenerator,
    RateGenerator as RateGenerator,
    TimeVaryingGenerator as TimeVaryingGenerator,
)
from discrete_meanflow.ctmc.mean_rate import (
    identity_residual as identity_residual,
    integral_form as integral_form,
    mean_rate as mean_rate,
)
from discrete_meanflow.ctmc.simulate import (
    JumpRates as JumpRates,
    MatrixRates as MatrixRates,
    simulate as simulate,
)
from discrete_meanflow.ctmc.transition import (
    matrix_exponential as matrix_exponential,
    transition as transition,
)
from discrete_meanflow.ctmc.uniformization import uniformized_action as uniformized_action
