"""Reports: folders of runs as one HTML file that opens offline.

Charts are SVG, drawn here, with a little JavaScript that shows values under the pointer. plotly.js
would add 4.5 MB to each file; these charts are a few kilobytes, print well and work without
scripts. Nothing from the user's files enters a script: templates escape all text, and a content
security policy permits only the script and the style of the page itself.

Records of ``dmf reproduce`` are read as JSON only; pages of them load no PyTorch.
"""

from discrete_meanflow.report.page import report_page

__all__ = ["report_page"]
