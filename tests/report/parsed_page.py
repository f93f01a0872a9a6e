"""What a page contains, as a browser's parser sees it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = ("meta", "link", "img", "br", "input", "line", "rect", "circle", "polyline")


@dataclass
class Element:
    """An element: its attributes, its children, and its text."""

    tag: str
    attributes: dict
    parent: "Element | None" = None
    children: list = field(default_factory=list)
    own_text: str = ""

    @property
    def text(self):
        return self.own_text

    def all(self, *tags):
        """Descendants with one of these tags, in order."""
        for child in self.children:
            if child.tag in tags or not tags:
                yield child
            yield from child.all(*tags)

    def classes(self):
        return (self.attributes.get("class") or "").split()


class _Parser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.root = self.open = Element("root", {})

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs), self.open)
        self.open.children.append(element)
        if tag not in VOID:
            self.open = element

    def handle_startendtag(self, tag, attrs):
        self.open.children.append(Element(tag, dict(attrs), self.open))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert tag == self.open.tag, f"</{tag}> closes <{self.open.tag}>"
            self.open = self.open.parent

    def handle_data(self, data):
        element = self.open
        while element is not None:  # the text of an element includes that of its descendants
            element.own_text += data
            element = element.parent


def parse(page):
    """The root of a page; all its elements are closed in order."""
    parser = _Parser()
    parser.feed(page.decode())
    assert parser.open is parser.root
    return parser.root


def tables(element):
    """The rows of all tables as lists of (text, exact value)."""
    for table in element.all("table"):
        yield [
            [
                (" ".join(cell.text.split()), cell.attributes.get("title", ""))
                for cell in row.all("td")
            ]
            for row in table.all("tr")
        ]


def points(element):
    """The points of all series of all charts, by name."""
    for chart in element.all("svg"):
        for series in chart.all("g"):
            pairs = series.attributes["data-values"].split()
            yield series.attributes["data-name"], [pair.split(",") for pair in pairs]
