"""What the tests do with the page in a browser."""

import json

LAPTOP, PHONE = 1280, 390  # pixels wide
TRAINING = 120_000  # milliseconds that a kernel may take on a busy machine


def shown(page, view, **expected):
    """Wait until a view shows the answer to a question with these values; return the question."""
    page.wait_for_function(
        """([view, expected]) => {
          const box = document.getElementById(view);
          if (box.ariaBusy !== "false") return false;
          const question = JSON.parse(box.dataset.question);
          return Object.entries(expected).every(
            ([key, value]) => JSON.stringify(question[key]) === JSON.stringify(value));
        }""",
        arg=[view, expected],
    )
    assert page.is_hidden("#failure"), page.inner_text("#failure")
    return json.loads(page.get_attribute(f"#{view}", "data-question"))


def slide(page, name, value):
    page.locator(f"#{name}").fill(str(value))


def sampled(page, **fields):
    """Type values into fields, and wait for the records."""
    for name, value in fields.items():
        page.fill(f"#{name}", str(value))
        page.press(f"#{name}", "Enter")
    shown(page, "runs", **fields)
    return page
