"""A run as a static web page, which generates records in the visitor's browser."""

from discrete_meanflow.web.site import Site, export_site

__all__ = ["Site", "export_site"]
