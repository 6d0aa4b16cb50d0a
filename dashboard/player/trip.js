// A trip: its path coloured by speed over free flow, its speed over time, and one cursor for both.

const NEAR_PX = 24;
const PLOT = { left: 44, right: 10, top: 22, bottom: 22 };
const STRIP_PX = 6;

class Trip {
  constructor(root) {
    this.root = root;
    this.map = new RoadMap(find(root, "map"), (context) => this.drawWay(context));
    this.chart = find(root, "chart");
    this.slider = find(root, "slider");
    this.at = 0;
    this.map.onHover = (place) => this.hover(place);
    this.map.onClick = (place) => this.hover(place);
    this.slider.oninput = () => this.point(Number(this.slider.value));
    for (const name of ["pointermove", "pointerdown"]) this.chart.addEventListener(name, (e) => this.slide(e));
    zoomButtons(root, this.map, () => this.map.fit(this.places()));
    this.watcher = new ResizeObserver(() => this.drawChart());
    this.watcher.observe(this.chart);
  }

  stop() {
    this.map.stop();
    this.watcher.disconnect();
  }

  update(data) {
    const other = data.id !== (this.data || {}).id;
    this.data = data;
    this.x = data.path.lon.map(worldX);
    this.y = data.path.lat.map(worldY);
    this.slider.max = Math.max(0, data.path.t.length - 1);
    if (other) {
      this.at = 0;
      this.map.fit(this.places());
    }
    this.map.dress(data);
    this.point(Math.min(this.at, data.path.t.length - 1));
    this.map.redraw();
  }

  places() {
    return this.data.path.lon.map((lon, k) => [lon, this.data.path.lat[k]]);
  }

  point(at) {
    this.at = at;
    this.slider.value = at;
    const words = this.words(at);
    find(this.root, "told").textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
    this.map.redraw();
    this.drawChart();
  }

  words(at) {
    const { t, speed, limit, free, band } = this.data.path;
    const words = [clock(t[at], this.data.zone), speed[at] === null ? "no speed" : `${Math.round(speed[at])} km/h`];
    if (limit[at] !== null) words.push(`limit ${Math.round(limit[at])}`);
    if (free[at] !== null && speed[at] !== null) {
      words.push(`${Math.round((speed[at] / free[at]) * 100)} % of free flow (${Math.round(free[at])}): ${band[at]}`);
    } else {
      words.push("no free-flow speed here yet");
    }
    const near = this.data.marks.filter((mark) => Math.abs(mark.t - t[at]) <= this.reach());
    return [...words, ...near.map((mark) => mark.words)].join(" · ");
  }

  reach() {
    const { t } = this.data.path;
    return Math.max(5000, ((t[t.length - 1] - t[0]) / Math.max(1, t.length - 1)) * 0.6);
  }

  hover(place) {
    if (!place) return;
    let [best, least] = [-1, NEAR_PX];
    for (let k = 0; k < this.x.length; k += 1) {
      const far = apart(place, [this.map.px(this.x[k]), this.map.py(this.y[k])]);
      if (far < least) [best, least] = [k, far];
    }
    if (best >= 0) this.point(best);
  }

  slide(event) {
    const { t } = this.data.path;
    const wide = this.chart.clientWidth - PLOT.left - PLOT.right;
    const ms = t[0] + ((event.offsetX - PLOT.left) / wide) * (t[t.length - 1] - t[0]);
    let best = 0;
    for (let k = 1; k < t.length; k += 1) if (Math.abs(t[k] - ms) < Math.abs(t[best] - ms)) best = k;
    this.point(best);
  }

  drawWay(context) {
    if (!this.data) return;
    const { band, joined } = this.data.path;
    context.lineCap = "round";
    for (const casing of [true, false]) {
      context.lineWidth = casing ? 8 : 5;
      for (let k = 1; k < this.x.length; k += 1) {
        if (!joined[k]) continue;
        context.strokeStyle = casing ? this.data.tone.outline : this.data.bands[band[k]];
        context.beginPath();
        context.moveTo(this.map.px(this.x[k - 1]), this.map.py(this.y[k - 1]));
        context.lineTo(this.map.px(this.x[k]), this.map.py(this.y[k]));
        context.stroke();
      }
    }
    for (const { lat, lon, sign, colour } of this.data.marks) {
      if (lat !== null && lon !== null) badge(context, this.map.px(worldX(lon)), this.map.py(worldY(lat)), sign, colour, 8);
    }
    for (const [at, letter] of [[0, "A"], [this.x.length - 1, "B"]]) {
      badge(context, this.map.px(this.x[at]), this.map.py(this.y[at]), letter, this.data.tone.end, 9);
    }
    const [x, y] = [this.map.px(this.x[this.at]), this.map.py(this.y[this.at])];
    ring(context, x, y, 9, this.data.tone.outline, 5);
    ring(context, x, y, 9, this.data.tone.cursor, 3);
  }

  drawChart() {
    if (!this.data || !this.chart.clientWidth) return;
    const [context, width, height] = canvasOf(this.chart);
    const plot = this.plotOf(width, height);
    context.font = "12px sans-serif";
    this.drawAxes(context, plot);
    this.drawStrip(context, plot);
    this.drawLine(context, plot, this.data.path.limit, this.data.tone.limit, [5, 4], true);
    this.drawLine(context, plot, this.data.path.free, this.data.tone.free, [2, 3], true);
    this.drawLine(context, plot, this.data.path.speed, this.data.tone.line, [], false);
    for (const mark of this.data.marks) badge(context, plot.x(mark.t), PLOT.top - 11, mark.sign, mark.colour, 8);
    const x = plot.x(this.data.path.t[this.at]);
    context.strokeStyle = this.data.tone.cursor;
    context.lineWidth = 2;
    line(context, x, PLOT.top, x, plot.bottom);
  }

  plotOf(width, height) {
    const { t, speed, limit, free } = this.data.path;
    const highest = Math.max(20, ...[...speed, ...limit, ...free].filter((v) => v !== null));
    const top = Math.ceil((highest * 1.05) / 20) * 20;
    const [first, last] = [t[0], Math.max(t[t.length - 1], t[0] + 1)];
    const bottom = height - PLOT.bottom - STRIP_PX;
    return {
      top,
      bottom,
      right: width - PLOT.right,
      x: (ms) => PLOT.left + ((ms - first) / (last - first)) * (width - PLOT.left - PLOT.right),
      y: (kmh) => bottom - (kmh / top) * (bottom - PLOT.top),
    };
  }

  drawAxes(context, plot) {
    context.fillStyle = this.data.tone.ink;
    context.strokeStyle = this.data.tone.grid;
    context.lineWidth = 1;
    const step = plot.top > 80 ? 40 : 20;
    context.textAlign = "right";
    for (let kmh = 0; kmh <= plot.top; kmh += step) {
      line(context, PLOT.left, plot.y(kmh), plot.right, plot.y(kmh));
      context.fillText(String(kmh), PLOT.left - 6, plot.y(kmh) + 4);
    }
    context.save();
    context.translate(11, (PLOT.top + plot.bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText("km/h", 0, 0);
    context.restore();
    this.drawTimes(context, plot);
  }

  drawTimes(context, plot) {
    const { t } = this.data.path;
    const [first, last] = [t[0], t[t.length - 1]];
    const step = timeStep(last - first, Math.max(2, (plot.right - PLOT.left) / 90));
    const shift = offsetOf(first, this.data.zone);
    context.textAlign = "center";
    for (let ms = Math.ceil((first + shift) / step) * step - shift; ms <= last; ms += step) {
      const words = clock(ms, this.data.zone).slice(0, step < 60000 ? 8 : 5);
      if (plot.x(ms) < plot.right - 14) context.fillText(words, plot.x(ms), plot.bottom + STRIP_PX + 15);
    }
  }

  drawStrip(context, plot) {
    const { t, band, joined } = this.data.path;
    for (let k = 1; k < t.length; k += 1) {
      if (!joined[k]) continue;
      context.fillStyle = this.data.bands[band[k]];
      context.fillRect(plot.x(t[k - 1]), plot.bottom, plot.x(t[k]) - plot.x(t[k - 1]) + 0.5, STRIP_PX);
    }
  }

  drawLine(context, plot, values, colour, dash, stepped) {
    const { t, joined } = this.data.path;
    context.strokeStyle = colour;
    context.lineWidth = stepped ? 1.3 : 1.8;
    context.setLineDash(dash);
    context.beginPath();
    values.forEach((value, k) => {
      const before = k > 0 && joined[k] ? values[k - 1] : null;
      if (value === null) return;
      if (before === null) context.moveTo(plot.x(t[k]), plot.y(value));
      if (before !== null && stepped) context.lineTo(plot.x(t[k - 1]), plot.y(value));
      context.lineTo(plot.x(t[k]), plot.y(value));
    });
    context.stroke();
    context.setLineDash([]);
  }
}

// A disc with a sign in it, readable on roads of any colour.
function badge(context, x, y, sign, colour, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
  context.lineWidth = 1.5;
  context.strokeStyle = "#ffffff";
  context.stroke();
  context.fillStyle = "#ffffff";
  context.font = `bold ${radius + 2}px sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(sign, x, y + 0.5);
  context.textBaseline = "alphabetic";
}

export default function (component) {
  const root = component.parentElement;
  root.odograph ??= new Trip(root);
  root.odograph.update(component.data);
  return () => leave(root);
}
