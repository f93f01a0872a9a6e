/** Records whose symbols are levels of brightness. */

import { element } from "./dom.js";

const WIDTH = 112; // of a record, in CSS pixels, approximately

/** A picture of tokens; positions without a token stay empty. `marked` positions get a corner. */
export function image(layout, tokenAt, marked, width = WIDTH) {
  const [rows, columns] = layout.shape;
  const size = Math.max(2, Math.floor(width / columns));
  const canvas = element("canvas", { width: columns * size, height: rows * size });
  const context = canvas.getContext("2d");
  const accent = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  for (let position = 0; position < layout.size; position++) {
    const x = (position % columns) * size;
    const y = Math.floor(position / columns) * size;
    const token = tokenAt(position);
    if (token !== undefined) {
      const level = Math.round((255 * token) / (layout.symbols[0].length - 1));
      context.fillStyle = `rgb(${level} ${level} ${level})`;
      context.fillRect(x, y, size, size);
    }
    if (marked(position)) {
      const corner = Math.max(2, size / 3);
      context.fillStyle = accent;
      context.fillRect(x, y, corner, corner);
    }
  }
  return canvas;
}

/** The position under a pointer, undefined outside the picture. */
export function positionUnder(event, layout, canvas) {
  const [rows, columns] = layout.shape;
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
  const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
  const inside = column >= 0 && column < columns && row >= 0 && row < rows;
  return inside ? row * columns + column : undefined;
}

/** Put the outline of the cursor over one position of a picture. */
export function outline(frame, layout, position) {
  const [rows, columns] = layout.shape;
  const cursor = element("span", { class: "pixel cursor" });
  cursor.style.width = `${100 / columns}%`;
  cursor.style.height = `${100 / rows}%`;
  cursor.style.left = `${(100 * (position % columns)) / columns}%`;
  cursor.style.top = `${(100 * Math.floor(position / columns)) / rows}%`;
  frame.append(cursor);
}
