/** The charts. Plotly is a global of its script. */

/* global Plotly */

const ANCHORS = ["#c8553d", "#e0a458", "#86a873", "#3f8a8c", "#4f5d95", "#8c5a8c"];
const MARGIN = { l: 40, r: 12, t: 34, b: 38, autoexpand: false };
const OPTIONS = { displayModeBar: false, responsive: true };

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Colours of states in their order, between the anchors. */
function palette(size) {
  return Array.from({ length: size }, (_, i) => {
    const place = size === 1 ? 0 : (i / (size - 1)) * (Math.min(size, ANCHORS.length) - 1);
    const [a, b] = [Math.floor(place), Math.ceil(place)].map((k) => ANCHORS[k]);
    const parts = [1, 3, 5].map((at) => {
      const [low, high] = [a, b].map((hex) => parseInt(hex.slice(at, at + 2), 16));
      return Math.round(low + (high - low) * (place - Math.floor(place)));
    });
    return `rgb(${parts.join(",")})`;
  });
}

function layout(changes) {
  const axis = {
    gridcolor: color("line"), linecolor: color("line"), zerolinecolor: color("line"),
    fixedrange: true, ticks: "", automargin: false,
  };
  const { xaxis, yaxis, ...others } = changes;
  return {
    paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { family: "system-ui, sans-serif", size: 12, color: color("muted") },
    margin: MARGIN, height: 270, hovermode: "x unified",
    hoverlabel: { bgcolor: color("surface"), font: { color: color("ink") }, bordercolor: color("line") },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis }, ...others,
  };
}

function line(x) {
  return { type: "line", x0: x, x1: x, y0: 0, y1: 1, yref: "paper", line: { color: color("ink"), width: 2 } };
}

/** Move the line over a chart of times from r to 1. Moving a line of Plotly takes much longer. */
export function moveLine(line, r, t) {
  const share = (t - r) / (1 - r);
  const left = `calc(${MARGIN.l}px + ${share} * (100% - ${MARGIN.l + MARGIN.r}px))`;
  line.style.inset = `${MARGIN.t}px auto ${MARGIN.b}px ${left}`;
}

/** Probability mass of each state over time, stacked; dotted borders for the learned kernel. */
export function drawFlow(box, times, exact, learned) {
  const colors = palette(exact[0].length);
  const areas = colors.map((fill, y) => ({
    x: times, y: exact.map((law) => law[y]), name: `y = ${y}`, stackgroup: "exact",
    line: { width: 0 }, fillcolor: fill, hovertemplate: "%{y:.3f}",
  }));
  const borders = learned === null ? [] : colors.slice(0, -1).map((_, y) => ({
    x: times, y: learned.map((law) => law.slice(0, y + 1).reduce((sum, p) => sum + p, 0)),
    mode: "lines", line: { dash: "dot", width: 2, color: "#ffffff" }, hoverinfo: "skip",
    showlegend: false,
  }));
  return Plotly.react(box, [...areas, ...borders], layout({
    xaxis: { title: { text: "time s", standoff: 4 }, range: [times[0], times.at(-1)] },
    yaxis: { range: [0, 1] }, showlegend: colors.length <= 4,
  }), OPTIONS);
}

/** Frequencies of samples, with the exact law as marks. */
export function drawHistogram(box, law, samples) {
  const states = law.map((_, y) => y);
  const bars = samples && {
    type: "bar", x: states, y: samples, name: "one-step samples",
    marker: { color: color("accent") }, hovertemplate: "%{y:.4f}",
  };
  const marks = {
    x: states, y: law, name: "exact law", mode: "markers", hovertemplate: "%{y:.4f}",
    marker: { symbol: "line-ew", size: 26 - law.length, line: { width: 3, color: color("ink") } },
  };
  return Plotly.react(box, bars ? [bars, marks] : [marks], layout({
    xaxis: { title: { text: "state y", standoff: 4 }, tickmode: "array", tickvals: states, range: [-0.6, law.length - 0.4] },
    yaxis: { rangemode: "tozero" },
  }), OPTIONS);
}

/** A score against the number of steps. */
export function drawQuality(box, { samples, "held out": heldOut }, score, steps) {
  const numbers = Object.keys(samples).map(Number).sort((a, b) => a - b);
  const points = {
    x: numbers, y: numbers.map((k) => samples[k][score]), name: "samples", mode: "lines+markers",
    line: { color: color("accent"), width: 2 }, marker: { size: 7 }, hovertemplate: "%{y:.4f}",
  };
  const level = {
    x: [1, 64], y: [heldOut[score], heldOut[score]], name: "held-out records", mode: "lines",
    line: { color: color("muted"), dash: "dash", width: 1.5 }, hovertemplate: "%{y:.4f}",
  };
  return Plotly.react(box, [points, level], layout({
    xaxis: {
      type: "log", title: { text: "steps", standoff: 4 }, tickvals: [1, 2, 4, 8, 16, 32, 64],
      range: [-0.08, Math.log10(64) + 0.08],
    },
    yaxis: { rangemode: "tozero" }, shapes: [line(steps)], height: 240,
  }), OPTIONS);
}
