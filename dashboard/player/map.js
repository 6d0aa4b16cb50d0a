// A map of our own: roads on a ground, pan, zoom, and a place for others to draw on. World coordinates are Web
// Mercator in 0..1 both ways. Nothing is fetched but the road rows of this server and what the ground needs.

const WORLD_PX = 512;
const ZOOMS = [1, 19];
const CLICK_PX = 6;
const WHEEL_STEP = 0.0025;

class RoadMap {
  // `box` is the element to fill; `draw(context, map)` is called over the roads; px of the screen throughout.
  constructor(box, draw) {
    this.box = box;
    box.replaceChildren();
    this.draw = draw;
    this.centre = [0.5, 0.5];
    this.zoom = 2;
    this.roads = [];
    this.address = null;
    this.onHover = () => {};
    this.onClick = () => {};
    this.onMoved = () => {};
    this.base = new Ground(box, () => this.refresh());
    this.ground = this.sheet("ground");
    this.top = this.sheet("top");
    this.pointers = new Map();
    this.listen();
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(box);
    this.resize();
  }

  sheet(name) {
    const canvas = document.createElement("canvas");
    canvas.className = name;
    this.box.appendChild(canvas);
    return canvas;
  }

  stop() {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
    this.base.stop();
  }

  // Colours, the address of the roads and the style of the ground; what is new is fetched, the same is not.
  dress({ tone, roads: address, ground }) {
    this.base.dress(ground);
    const changed = JSON.stringify(tone) !== JSON.stringify(this.tone);
    this.tone = tone;
    if (changed) this.refresh();
    if (!address || address === this.address) return;
    this.address = address;
    fetch(address)
      .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))))
      .then((rows) => {
        this.roads = rows.map(road);
        this.refresh();
      })
      .catch(() => {
        this.address = null; // asked again with the next data
      });
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    for (const canvas of [this.ground, this.top]) {
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(this.height * ratio);
      canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    if (this.wanted && this.width) {
      this.fit(this.wanted);
    }
    this.refresh();
  }

  // Hold these places [[lon, lat], ...] with a margin. Before the first layout it waits for a size.
  fit(places) {
    this.wanted = places;
    if (!this.width || !places.length) return;
    const xs = places.map(([lon]) => worldX(lon));
    const ys = places.map(([, lat]) => worldY(lat));
    const [west, east] = [Math.min(...xs), Math.max(...xs)];
    const [north, south] = [Math.min(...ys), Math.max(...ys)];
    const span = Math.max((east - west) / this.width, (south - north) / this.height, 1e-9) * 1.15;
    this.centre = [(west + east) / 2, (north + south) / 2];
    this.zoom = clamp(Math.log2(1 / span / WORLD_PX), ZOOMS[0], 16.5);
    this.refresh();
  }

  scale() {
    return WORLD_PX * 2 ** this.zoom;
  }

  px(x) {
    return (x - this.centre[0]) * this.scale() + this.width / 2;
  }

  py(y) {
    return (y - this.centre[1]) * this.scale() + this.height / 2;
  }

  inside(x, y, margin) {
    return x > -margin && y > -margin && x < this.width + margin && y < this.height + margin;
  }

  // Draw at the next frame: all of it, or what lies over the roads only.
  refresh() {
    this.stale = true;
    this.redraw();
  }

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    if (!this.tone || !this.width) return;
    if (this.stale) this.paintRoads();
    this.stale = false;
    const context = this.top.getContext("2d");
    context.clearRect(0, 0, this.width, this.height);
    this.draw(context, this);
    this.paintScale(context);
  }

  paintScale(context) {
    const [words, px] = scaleBar(metres(1 / this.scale(), 0, this.centre[1]));
    const [x, y] = [10, this.height - 10];
    context.strokeStyle = context.fillStyle = this.tone.ink;
    context.lineWidth = 2;
    context.beginPath();
    for (const [dx, dy] of [[0, -7], [0, 0], [px, 0], [px, -7]]) context.lineTo(x + dx, y + dy);
    context.stroke();
    context.font = "11px sans-serif";
    context.textAlign = "center";
    context.fillText(words, x + px / 2, y - 4);
  }

  paintRoads() {
    const context = this.ground.getContext("2d");
    context.fillStyle = this.tone.ground;
    if (this.base.look(...this.centre, this.zoom)) context.clearRect(0, 0, this.width, this.height);
    else context.fillRect(0, 0, this.width, this.height);
    context.lineCap = context.lineJoin = "round";
    const half = [this.width / 2 / this.scale(), this.height / 2 / this.scale()];
    for (const major of [false, true]) {
      context.strokeStyle = major ? this.tone.major : this.tone.minor;
      context.lineWidth = major ? 3 : 1.2;
      context.beginPath();
      for (const one of this.roads) {
        if (one.major === major && this.meets(one.box, half)) this.trace(context, one.points);
      }
      context.stroke();
    }
  }

  meets(box, half) {
    const [x, y] = this.centre;
    return box[0] < x + half[0] && box[2] > x - half[0] && box[1] < y + half[1] && box[3] > y - half[1];
  }

  trace(context, points) {
    context.moveTo(this.px(points[0]), this.py(points[1]));
    for (let k = 2; k < points.length; k += 2) context.lineTo(this.px(points[k]), this.py(points[k + 1]));
  }

  zoomBy(steps, x = this.width / 2, y = this.height / 2) {
    const before = this.scale();
    this.zoom = clamp(this.zoom + steps, ...ZOOMS);
    const after = this.scale();
    this.centre[0] += (x - this.width / 2) * (1 / before - 1 / after);
    this.centre[1] += (y - this.height / 2) * (1 / before - 1 / after);
    this.moved();
  }

  moved() {
    this.wanted = null;
    this.onMoved();
    this.refresh();
  }

  listen() {
    const canvas = this.top;
    const zoom = (event) => {
      event.preventDefault();
      this.zoomBy(clamp(-event.deltaY * WHEEL_STEP, -1, 1), event.offsetX, event.offsetY);
    };
    canvas.addEventListener("wheel", zoom, { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.lift(event));
    canvas.addEventListener("pointerleave", () => this.onHover(null));
    canvas.addEventListener("dblclick", (event) => this.zoomBy(1, event.offsetX, event.offsetY));
  }

  press(event) {
    this.top.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.pressed = [event.offsetX, event.offsetY];
  }

  move(event) {
    const at = [event.offsetX, event.offsetY];
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.onHover(at);
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    this.pointers.set(event.pointerId, at);
    if (this.pressed && apart(at, this.pressed) > CLICK_PX) this.pressed = null;
    if (others.length) {
      this.zoomBy(Math.log2(apart(at, others[0]) / Math.max(1, apart(before, others[0]))), ...others[0]);
    } else if (!this.pressed) {
      this.centre[0] -= (at[0] - before[0]) / this.scale();
      this.centre[1] -= (at[1] - before[1]) / this.scale();
      this.moved();
    }
  }

  lift(event) {
    this.pointers.delete(event.pointerId);
    if (this.pressed && event.type === "pointerup") this.onClick(this.pressed);
    this.pressed = null;
  }
}
