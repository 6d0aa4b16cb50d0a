// The player: a day's map at any moment, with play, pause, scrub and follow. It asks for one stretch at a time.

const MINUTE = 60000;
const STATE_MARGIN = 40;

class Replay {
  constructor(root) {
    this.root = root;
    this.map = new RoadMap(find(root, "map"), (context) => this.drawFleet(context));
    this.slider = find(root, "slider");
    this.strip = find(root, "strip");
    this.stock = new Stock();
    this.drawn = [];
    this.alerted = new Map();
    this.playing = false;
    this.map.onClick = (place) => this.choose(place);
    this.map.onMoved = () => this.follow(false);
    this.listen();
    this.watcher = new ResizeObserver(() => this.drawStrip());
    this.watcher.observe(this.strip);
  }

  listen() {
    const on = (name, act) => {
      find(this.root, name).onclick = act;
    };
    on("play", () => this.play(!this.playing));
    on("back", () => this.go(this.at - MINUTE));
    on("on", () => this.go(this.at + MINUTE));
    on("follow", () => this.follow(!this.following));
    on("close", () => this.pick(null));
    this.slider.oninput = () => this.go(Number(this.slider.value));
    this.strip.onclick = (event) => {
      const { since, until } = this.data.day;
      this.go(since + (event.offsetX / this.strip.clientWidth) * (until - since));
    };
    zoomButtons(this.root, this.map, () => this.home());
  }

  stop() {
    this.playing = false;
    this.map.stop();
    this.watcher.disconnect();
    clearTimeout(this.timer);
  }

  update(component) {
    const { data } = component;
    const other = !this.data || data.day.since !== this.data.day.since;
    this.component = component;
    this.data = data;
    this.stock.cut(data.plan, other);
    if (other) this.begin(data);
    else if (data.follow && data.follow !== this.wished) this.begin({ ...data, at_ms: this.at });
    this.wished = data.follow;
    this.slider.min = data.day.since;
    this.slider.max = data.day.until;
    if (!this.sheet || this.sheet.src !== data.icons.sheet) this.load(data.icons.sheet);
    this.map.dress(data);
    this.stock.take(data.stretch);
    this.show();
    this.drawStrip();
  }

  begin(data) {
    this.at = data.at_ms;
    if (!data.follow) this.placed = null;
    this.pick(data.follow || null);
    this.follow(Boolean(data.follow));
  }

  load(address) {
    this.sheet = new Image();
    this.sheet.onload = () => this.map.redraw();
    this.sheet.src = address;
  }

  want() {
    const wanted = this.stock.wanted(this.at, this.playing ? this.data.day.until : null);
    if (wanted) this.component.setStateValue("want", wanted);
  }

  play(on) {
    this.playing = on;
    const button = find(this.root, "play");
    button.textContent = on ? "❚❚ Pause" : "▶ Play";
    button.setAttribute("aria-label", on ? "Pause" : "Play");
    this.last = performance.now();
    if (on) requestAnimationFrame(() => this.tick());
    else this.component.setStateValue("at", Math.round(this.at));
  }

  tick() {
    if (!this.playing) return;
    const now = performance.now();
    const passed = Math.min(250, now - this.last);
    this.last = now;
    if (this.stock.at(this.at)) this.at += passed * this.data.speed;
    if (this.at >= this.data.day.until) {
      this.at = this.data.day.until - 1;
      this.play(false);
    }
    this.show();
    requestAnimationFrame(() => this.tick());
  }

  go(ms) {
    const { since, until } = this.data.day;
    this.at = clamp(ms, since, until - 1);
    this.show();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.component.setStateValue("at", Math.round(this.at)), 400);
  }

  show() {
    this.want();
    this.slider.value = this.at;
    const words = clock(this.at, this.data.zone, true);
    find(this.root, "at").textContent = `${words} · ×${this.data.speed}`;
    this.slider.setAttribute("aria-valuetext", words);
    const here = this.stock.at(this.at);
    const wait = this.data.away ? "The database is away; trying again" : "Loading …";
    find(this.root, "say").textContent = here ? this.words(here) : wait;
    if (!here) {
      clearTimeout(this.again);
      this.again = setTimeout(() => this.root.host?.isConnected && this.want(), AGAIN_MS + 100);
    }
    this.map.redraw();
  }

  // How many vehicles are in each state; worked out with each drawing.
  words(here) {
    const counts = {};
    const found = {};
    let placed = 0;
    this.drawn = [];
    for (let row = 0; row < here.ids.length; row += 1) {
      const where = here.at(row, this.at, found);
      if (!where) continue;
      placed += 1;
      counts[where.state] = (counts[where.state] || 0) + 1;
      this.drawn.push({ ...where, id: here.ids[row] });
    }
    this.alerted = alertsAt(here.alerts, this.at);
    if (!placed) return "Nobody has reported up to this moment";
    const parts = ["moving", "idling", "parked", "silent", "unknown"].filter((s) => counts[s]);
    return parts.map((state) => `${state} ${counts[state]}`).join(" · ");
  }

  // The first look: at the roads while nobody is there, then at the fleet. Whether the map is to be drawn again.
  place() {
    const wanted = this.drawn.length ? "fleet" : this.data.home.length ? "roads" : null;
    if (!wanted || this.placed === "fleet" || this.placed === wanted) return false;
    this.placed = wanted;
    this.look();
    return true;
  }

  look() {
    if (this.drawn.length) this.map.fit(this.drawn.map(({ x, y }) => degrees(x, y)));
    else if (this.data.home.length) this.map.fit(this.data.home);
  }

  home() {
    this.follow(false);
    this.look();
  }

  drawFleet(context) {
    if (!this.data) return;
    if (this.place()) return;
    this.centre();
    const size = clamp(14 + (this.map.zoom - 11) * 3, this.drawn.length > 2000 ? 9 : 14, 30);
    for (const one of this.drawn) {
      const [x, y] = [this.map.px(one.x), this.map.py(one.y)];
      if (this.map.inside(x, y, STATE_MARGIN)) this.icon(context, one.state, x, y, size, one.state === "moving" ? one.turn : 0);
    }
    for (const one of this.drawn) {
      const severity = this.alerted.get(one.id);
      if (severity) this.icon(context, severity, this.map.px(one.x), this.map.py(one.y) - size * 0.7, size * 0.9, 0);
    }
    this.tellCard(context, size);
  }

  centre() {
    const one = this.following && this.drawn.find((each) => each.id === this.picked);
    if (!one) return;
    this.map.centre = [one.x, one.y];
    this.map.paintRoads();
  }

  // Turned clockwise by degrees; nothing before the sheet has come.
  icon(context, name, x, y, size, turn) {
    const cell = this.data.icons.mapping[name];
    if (!cell || !this.sheet.complete) return;
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.drawImage(this.sheet, cell.x, cell.y, cell.width, cell.height, -size / 2, -size / 2, size, size);
    context.restore();
  }

  choose(place) {
    let [best, least] = [null, 18];
    for (const one of this.drawn) {
      const far = apart(place, [this.map.px(one.x), this.map.py(one.y)]);
      if (far < least) [best, least] = [one.id, far];
    }
    this.pick(best);
  }

  pick(id) {
    this.picked = id;
    if (!id) this.following = false;
    find(this.root, "card").classList.toggle("shown", Boolean(id));
    if (id) find(this.root, "open").href = `vehicle?vehicle=${encodeURIComponent(id)}`;
    this.follow(Boolean(id) && this.following);
  }

  follow(on) {
    this.following = on;
    const button = find(this.root, "follow");
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Following" : "Follow";
    this.map.redraw();
  }

  tellCard(context, size) {
    if (!this.picked) return;
    const one = this.drawn.find((each) => each.id === this.picked);
    if (one) ring(context, this.map.px(one.x), this.map.py(one.y), size * 0.85, this.data.tone.cursor);
    const lines = cardLines(this.picked, one, this.alerted.get(this.picked), this.data.zone);
    find(this.root, "who").textContent = lines.join("\n");
  }

  drawStrip() {
    if (!this.data || !this.strip.clientWidth) return;
    const [context, width, height] = canvasOf(this.strip);
    drawHours(context, width, height, this.data);
  }
}

export default function (component) {
  const root = component.parentElement;
  root.odograph ??= new Replay(root);
  root.odograph.update(component);
  return () => leave(root);
}
