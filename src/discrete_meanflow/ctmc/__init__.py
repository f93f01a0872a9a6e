"""Exact mathematics of finite continuous-time Markov chains, in float64, without learning."""
