// Draws the JSON of a Picture (report/pictures/picture.py) as inline SVG. Colours are classes of picture.css.
// drawPicture(picture, width) returns a <figure>: caption, legend, SVG and notes. It makes no request.
"use strict";
const drawPicture = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const CYCLE = 6, ROW = 20, LONGEST = 34;
  const ruler = document.createElement("canvas").getContext("2d");
  const SHAPES = [
    (r) => `M${-r},0a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`,
    (r) => `M${-r},${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    (r) => `M0,${-1.4 * r}L${1.4 * r},0L0,${1.4 * r}L${-1.4 * r},0z`,
    (r) => `M0,${-1.3 * r}L${1.3 * r},${r}H${-1.3 * r}z`,
  ];
  let drawn = 0;

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const html = (name, className, ...children) => {
    const made = document.createElement(name);
    made.className = className;
    made.append(...children);
    return made;
  };
  const tip = (text) => (text ? [element("title", {}, text)] : []);
  const short = (value) => {
    const size = Math.abs(value);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2).replace(/\.?0*e\+?/, "e");
    return String(Number(value.toPrecision(5)));
  };
  const shown = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
  const widthOf = (text) => {
    ruler.font = "11px system-ui, sans-serif";
    return ruler.measureText(text).width;
  };
  const places = (mark) => mark.x ?? mark.y.map((_, index) => index + 1);
  const rows = (mark) => mark.rows ?? mark.to.map((_, index) => index);

  // Values of all marks on one axis, for its limits.
  const values = (marks, axis) =>
    marks.flatMap((mark) => {
      if (mark.mark === "band") return (mark.along ?? "y") === axis ? [mark.low, mark.high] : [];
      if (mark.mark === "bars") return axis === "x" ? [...(mark.start ?? [0]), ...mark.to] : [];
      if (mark.mark === "text") return axis === "right" ? [] : [mark[axis]];
      if (axis === "x") return places(mark);
      if ((mark.right ?? false) !== (axis === "right")) return [];
      return [...mark.y, ...(mark.low ?? []), ...(mark.high ?? [])];
    });

  const linearTicks = (low, high, most) => {
    const rough = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
    const ticks = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) {
      ticks.push(Number((n * step).toPrecision(12)));
    }
    return ticks;
  };
  const logTicks = (low, high, most) => {
    const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
    const decades = Array.from({ length: to - from + 1 }, (_, index) => from + index);
    for (const factors of [[1, 2, 5], [1, 3], [1]]) {
      const ticks = decades.flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)));
      const inside = ticks.filter((tick) => tick >= low && tick <= high);
      if (inside.length <= most) return inside;
    }
    const each = Math.ceil(decades.length / most);
    return decades.filter((power) => power % each === 0).map((power) => Number(`1e${power}`));
  };

  // An axis with limits, ticks and a function from values to pixels.
  const scale = (axis, found, most) => {
    const rowNames = axis.names && !axis.ticks;
    if (rowNames) {
      const count = axis.names.length;
      const ticks = axis.names.map((name, index) => [index, name]);
      return { axis, ticks, at: (value, from, to) => from + ((value + 0.5) / count) * (to - from), rows: count };
    }
    const usable = found.filter((value) => Number.isFinite(value) && (!axis.log || value > 0));
    let low = axis.low ?? Math.min(...usable), high = axis.high ?? Math.max(...usable);
    if (!usable.length && (axis.low === undefined || axis.high === undefined)) [low, high] = [axis.log ? 1 : 0, 10];
    const forward = axis.log ? Math.log10 : (value) => value;
    const back = axis.log ? (value) => 10 ** value : (value) => value;
    let [a, b] = [forward(low), forward(high)];
    if (a === b) [a, b] = axis.log ? [a - 0.5, b + 0.5] : [a - (Math.abs(a) * 0.05 || 1), b + (Math.abs(b) * 0.05 || 1)];
    const pad = 0.05 * (b - a);
    if (axis.low === undefined) a -= pad;
    if (axis.high === undefined) b += pad;
    const own = axis.ticks?.map((tick, index) => [tick, axis.names?.[index] ?? short(tick)]);
    const round = axis.log ? logTicks(back(a), back(b), most) : linearTicks(a, b, most);
    return {
      axis,
      ticks: own ?? round.map((tick) => [tick, short(tick)]),
      at: (value, from, to) => from + ((forward(value) - a) / (b - a)) * (to - from),
    };
  };

  const legend = (marks, tones) => {
    const entries = marks.filter((mark) => mark.name && !mark.beside);
    if (!entries.length) return [];
    const items = entries.map((mark) => {
      const sample = element("svg", { width: 22, height: 12, viewBox: "0 0 22 12", "aria-hidden": "true" });
      sample.setAttribute("class", `mark ${tones.get(mark).name}`);
      if (mark.mark === "bars") sample.append(element("rect", { x: 2, y: 1, width: 18, height: 10, class: "bar" }));
      else if (mark.mark === "band") sample.append(element("rect", { x: 0, y: 0, width: 22, height: 12, class: "band" }));
      else {
        if (mark.mark === "line") sample.append(element("path", { d: "M0,6H22", class: mark.dashed ? "line dashed" : "line" }));
        if (mark.mark === "points" || mark.dots) sample.append(dot(11, 6, tones.get(mark).shape, mark.hollow));
      }
      return html("li", "", sample, ` ${mark.name}`);
    });
    return [html("ul", "legend", ...items)];
  };
  const dot = (x, y, shape, hollow, text) =>
    element(
      "path",
      { d: SHAPES[shape](3.2), transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, class: hollow ? "dot hollow" : "dot" },
      ...tip(text),
    );

  const drawMark = (mark, tone, area, x, y) => {
    const group = element("g", { class: `mark ${tone.name}` });
    const left = (value) => x.at(value, area.left, area.right);
    const top = (value) => (y.rows ? y.at(value, area.top, area.bottom) : y.at(value, area.bottom, area.top));
    const within = (value) => Math.min(Math.max(value, -1e4), 1e4);
    if (mark.mark === "line") {
      const points = places(mark).map((value, index) => [left(value), top(mark.y[index])].map(within));
      const d = `M${points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join("L")}`;
      group.append(element("path", { d, class: mark.dashed ? "line dashed" : "line" }));
      if (mark.dots) {
        points.forEach(([a, b], index) =>
          group.append(dot(a, b, tone.shape, false, `${mark.name ?? ""} ${short(places(mark)[index])}: ${short(mark.y[index])}`.trim())),
        );
      }
    } else if (mark.mark === "points") {
      places(mark).forEach((value, index) => {
        const [a, text] = [left(value), mark.tips?.[index] ?? `${short(value)}: ${short(mark.y[index])}`];
        if (mark.low) {
          const d = `M${a.toFixed(1)},${top(mark.low[index]).toFixed(1)}V${top(mark.high[index]).toFixed(1)}`;
          group.append(element("path", { d, class: "interval" }, ...tip(text)));
        }
        const point = dot(a, top(mark.y[index]), tone.shape, mark.hollow, text);
        const address = mark.links?.[index] ?? "";
        group.append(/^https?:\/\//.test(address) ? element("a", { href: address, "aria-label": text }, point) : point);
      });
    } else if (mark.mark === "bars") {
      const height = Math.min(((area.bottom - area.top) / (y.rows ?? 1)) * 0.76, 26) / tone.shares;
      rows(mark).forEach((row, index) => {
        const [from, to] = [left(mark.start?.[index] ?? 0), left(mark.to[index])];
        const above = top(row) + (tone.share - tone.shares / 2) * height;
        const box = { x: from.toFixed(1), y: above.toFixed(1), width: Math.max(to - from, 0.6).toFixed(1), height: height.toFixed(1), class: "bar" };
        group.append(element("rect", box, ...tip(mark.tips?.[index] ?? `${mark.name ?? ""} ${short(mark.to[index])}`.trim())));
      });
    } else if (mark.mark === "band") {
      const [low, high] = (mark.along === "x" ? [left(mark.low), left(mark.high)] : [top(mark.high), top(mark.low)]).map(within);
      const box = mark.along === "x"
        ? { x: low, y: area.top, width: high - low, height: area.bottom - area.top }
        : { x: area.left, y: low, width: area.right - area.left, height: high - low };
      group.append(element("rect", { ...box, class: "band" }, ...tip(mark.name)));
    } else {
      const at = { x: left(mark.x).toFixed(1), y: top(mark.y).toFixed(1), class: "label", "text-anchor": mark.end ? "end" : "start" };
      group.append(element("text", at, mark.text));
    }
    return group;
  };

  // The name of a line along it: at the end of a level line, at the start of a slope.
  const nameBeside = (mark, tone, area, x, y) => {
    const points = places(mark).map((value, index) => [x.at(value, area.left, area.right), y.at(mark.y[index], area.bottom, area.top)]);
    const [[x0, y0], [x1, y1]] = [points[0], points[points.length - 1]];
    const slope = (y1 - y0) / (x1 - x0 || 1);
    const level = Math.abs(slope) < 0.02;
    const from = Math.max(x0, area.left, ...(slope < 0 ? [x0 + (area.bottom - y0) / slope] : [])) + 8;
    const to = Math.min(x1, area.right) - 4;
    const at = level ? to : from;
    const turn = level ? "" : ` rotate(${((Math.atan(slope) * 180) / Math.PI).toFixed(1)})`;
    const place = `translate(${at.toFixed(1)},${(y0 + slope * (at - x0)).toFixed(1)})${turn} translate(0,-4)`;
    const text = element("text", { transform: place, class: "label", "text-anchor": level ? "end" : "start" }, mark.name);
    return element("g", { class: `mark ${tone.name}` }, text);
  };

  return (picture, width = 560) => {
    const marks = picture.marks ?? [], tones = new Map(), id = `picture-${++drawn}`;
    const bars = marks.filter((mark) => mark.mark === "bars" && !mark.start);
    let next = 0;
    for (const mark of marks) {
      const own = !mark.tone && mark.mark !== "band" && mark.mark !== "text";
      const share = bars.includes(mark) ? [bars.indexOf(mark), bars.length] : [0, 1];
      const name = own ? `cycle-${next % CYCLE}` : mark.tone ?? (mark.mark === "band" ? "quiet" : "");
      tones.set(mark, { name, shape: own ? next++ % SHAPES.length : 0, share: share[0], shares: share[1] });
    }
    const rowCount = picture.y.names && !picture.y.ticks ? picture.y.names.length : 0;
    const height = rowCount ? rowCount * (bars.length > 1 ? ROW * 1.3 : ROW) : Math.min(250, 0.46 * width);
    const y = scale(picture.y, values(marks, "y"), 6);
    const right = picture.right && scale(picture.right, values(marks, "right"), 6);
    const widest = (axis) => Math.max(...axis.ticks.map(([, name]) => widthOf(shown(name))), 6);
    const area = { left: widest(y) + (picture.y.label ? 30 : 12), right: width - (right ? widest(right) + 30 : 14), top: 8, bottom: 8 + height };
    const x = scale(picture.x, values(marks, "x"), Math.max(3, Math.floor((area.right - area.left) / 64)));
    const total = area.bottom + (picture.x.label ? 40 : 24);
    const linked = marks.some((mark) => mark.links?.length);
    const svg = element(
      "svg",
      { viewBox: `0 0 ${width} ${total}`, role: linked ? "group" : "img", "aria-labelledby": `${id}-title ${id}-text` },
      element("title", { id: `${id}-title` }, picture.title),
      element("desc", { id: `${id}-text` }, picture.description),
      element("clipPath", { id }, element("rect", { x: area.left, y: area.top, width: area.right - area.left, height })),
    );
    const grid = element("g", { class: "grid" }), labels = element("g", { class: "ticks" });
    for (const [value, name] of x.ticks) {
      const at = x.at(value, area.left, area.right).toFixed(1);
      grid.append(element("path", { d: `M${at},${area.top}V${area.bottom}` }));
      labels.append(element("text", { x: at, y: area.bottom + 15, "text-anchor": "middle" }, name));
    }
    for (const [value, name] of y.ticks) {
      const at = y.rows ? y.at(value, area.top, area.bottom) : y.at(value, area.bottom, area.top);
      if (!y.rows) grid.append(element("path", { d: `M${area.left},${at.toFixed(1)}H${area.right}` }));
      labels.append(element("text", { x: area.left - 6, y: (at + 4).toFixed(1), "text-anchor": "end" }, shown(name), ...tip(name.length > LONGEST ? name : "")));
    }
    for (const [value, name] of right?.ticks ?? []) {
      labels.append(element("text", { x: area.right + 6, y: (right.at(value, area.bottom, area.top) + 4).toFixed(1) }, name));
    }
    const middle = (area.top + area.bottom) / 2;
    const named = (axis, place) => axis?.label && labels.append(element("text", { ...place, class: "axis", "text-anchor": "middle" }, axis.label));
    named(picture.x, { x: (area.left + area.right) / 2, y: area.bottom + 33 });
    named(picture.y, { transform: `translate(12,${middle}) rotate(-90)` });
    named(picture.right, { transform: `translate(${width - 4},${middle}) rotate(-90)` });
    const content = element("g", { "clip-path": `url(#${id})` });
    for (const mark of marks) content.append(drawMark(mark, tones.get(mark), area, x, mark.right ? right : y));
    svg.append(grid, content, labels);
    for (const mark of marks) if (mark.beside) svg.append(nameBeside(mark, tones.get(mark), area, x, y));
    svg.style.maxWidth = `${width}px`;
    const notes = (picture.notes ?? []).map((note) => html("p", "note", note));
    return html("figure", "picture", html("figcaption", "", picture.title), ...legend(marks, tones), svg, ...notes);
  };
})();
