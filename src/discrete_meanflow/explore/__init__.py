"""A local web page that shows finite chains and trained runs."""

from discrete_meanflow.explore.serve import serve as serve
from discrete_meanflow.explore.server import create_app as create_app
