"use strict";
// Values under the pointer: the nearest point of each series of a chart.
const tip = document.getElementById("tip");

function seriesOf(chart) {
  return [...chart.querySelectorAll("g.series:not(.off)")].map((g) => ({
    name: g.dataset.name,
    color: [...g.classList].find((name) => /^c\d$/.test(name)),
    values: g.dataset.values.split(" ").map((pair) => pair.split(",").map(Number)),
    places: g.querySelector("polyline").getAttribute("points").split(" ").map((p) => p.split(",").map(Number)),
  }));
}

function row(name, value, color) {
  const line = document.createElement("div");
  if (color) line.className = color;
  line.append(name ? name + ": " : "", Object.assign(document.createElement("b"), { textContent: value }));
  return line;
}

const shown = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4))));

function hide(chart) {
  tip.hidden = true;
  chart.querySelectorAll(".mark").forEach((mark) => mark.remove());
}

function show(chart, event) {
  const box = chart.getBoundingClientRect();
  const x = ((event.clientX - box.left) * 360) / box.width;
  hide(chart);
  const nearest = seriesOf(chart).map((s) => {
    let best = 0;
    s.places.forEach((place, i) => { if (Math.abs(place[0] - x) < Math.abs(s.places[best][0] - x)) best = i; });
    return { ...s, place: s.places[best], value: s.values[best] };
  });
  if (!nearest.length) return;
  const first = nearest.reduce((a, b) => (Math.abs(b.place[0] - x) < Math.abs(a.place[0] - x) ? b : a));
  const lines = [row(chart.dataset.x, shown(first.value[0]))];
  for (const s of nearest) {
    if (Math.abs(s.place[0] - first.place[0]) > 12) continue;
    lines.push(row(s.name, shown(s.value[1]), s.color));
    const mark = document.createElementNS(chart.namespaceURI, "circle");
    mark.setAttribute("class", "mark " + s.color);
    mark.setAttribute("cx", s.place[0]);
    mark.setAttribute("cy", s.place[1]);
    mark.setAttribute("r", "4");
    chart.append(mark);
  }
  for (const level of chart.querySelectorAll(".level:not(.off)")) lines.push(row(level.dataset.name, shown(Number(level.dataset.y))));
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const width = tip.offsetWidth;
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)) + "px";
}

for (const chart of document.querySelectorAll("svg.chart")) {
  chart.addEventListener("pointermove", (event) => show(chart, event));
  chart.addEventListener("pointerdown", (event) => show(chart, event));
  chart.addEventListener("pointerleave", () => hide(chart));
}

// An entry of a legend hides or shows its series in all charts beside it.
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    for (const part of button.closest(".charts").querySelectorAll("[data-name]")) {
      if ([button.textContent, "held out, " + button.textContent].includes(part.dataset.name)) part.classList.toggle("off", !on);
    }
  });
}

document.getElementById("failing")?.addEventListener("change", (event) => {
  document.body.classList.toggle("failing", event.target.checked);
});
