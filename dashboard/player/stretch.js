// A stretch of the day: places of all vehicles in steps, as the server packs them. Times are epoch ms.

const UNKNOWN_PLACE = -2147483648;
const UNKNOWN = 255;
const DEGREE = 1e6;
const STATES = ["moving", "idling", "parked", "unknown"];
const SILENT_MS = 120000; // as serving.fleet_latest: later than this it counts as silent
const JUMP_MPS = 70;

class Stretch {
  constructor(packed) {
    this.start = packed.start_ms;
    this.step = packed.step_ms;
    this.columns = packed.steps + 1;
    this.ids = packed.ids;
    this.alerts = packed.alerts;
    const bytes = (name) => Uint8Array.from(atob(packed[name]), (letter) => letter.charCodeAt(0));
    const lat = new Int32Array(bytes("lat").buffer);
    const lon = new Int32Array(bytes("lon").buffer);
    this.x = Float64Array.from(lon, (v) => (v === UNKNOWN_PLACE ? NaN : worldX(v / DEGREE)));
    this.y = Float64Array.from(lat, (v) => (v === UNKNOWN_PLACE ? NaN : worldY(v / DEGREE)));
    this.speed = bytes("speed");
    this.heading = bytes("heading");
    this.state = bytes("state");
    this.before = new Map(packed.before.map(([row, ms, y, x, state]) => [row, { ms, x: worldX(x), y: worldY(y), state: STATES[state] }]));
  }

  // The last place of each vehicle of an earlier stretch, for those that say nothing in this one.
  follows(earlier) {
    const rows = new Map(this.ids.map((id, row) => [id, row]));
    earlier.ids.forEach((id, old) => {
      const last = earlier.lastOf(old);
      if (!last) return;
      if (!rows.has(id)) rows.set(id, this.ids.push(id) - 1); // beyond the arrays: it has a place before them only
      if (!this.before.has(rows.get(id))) this.before.set(rows.get(id), last);
    });
  }

  // Whether there is a place; a vehicle of an earlier stretch only has no row in the arrays.
  has(at) {
    return Number.isFinite(this.x[at]);
  }

  lastOf(row) {
    for (let k = this.columns - 1; k >= 0; k -= 1) {
      const at = row * this.columns + k;
      if (this.has(at)) {
        return { ms: this.start + k * this.step, x: this.x[at], y: this.y[at], state: STATES[this.state[at]] };
      }
    }
    return this.before.get(row) || null;
  }

  // Where a vehicle was at a moment: {x, y, state, speed, turn, ms of its last data}; null: nobody knows.
  at(row, ms, found) {
    const column = Math.min(this.columns - 1, Math.floor((ms - this.start) / this.step));
    let k = column;
    while (k >= 0 && !this.has(row * this.columns + k)) k -= 1;
    if (k < 0) return this.silent(this.before.get(row), ms, found);
    const here = row * this.columns + k;
    const then = this.start + k * this.step;
    found.x = this.x[here];
    found.y = this.y[here];
    found.ms = then;
    if (!this.between(row, k, ms, found) && ms - then > SILENT_MS) return this.silent(found, ms, found);
    found.state = STATES[this.state[here]] || "unknown";
    found.speed = this.speed[here] === UNKNOWN ? null : this.speed[here];
    found.turn = this.heading[here] === UNKNOWN ? 0 : (this.heading[here] / 255) * 360;
    return found;
  }

  silent(last, ms, found) {
    if (!last) return null;
    found.x = last.x;
    found.y = last.y;
    found.ms = last.ms;
    found.state = ms - last.ms > SILENT_MS ? "silent" : last.state || "unknown";
    found.speed = null;
    found.turn = 0;
    return found;
  }

  // On the line to its next place, where that is near enough in time and place.
  between(row, k, ms, found) {
    const reach = Math.max(1, Math.ceil(SILENT_MS / this.step));
    for (let next = k + 1; next < this.columns && next <= k + reach; next += 1) {
      const there = row * this.columns + next;
      if (!this.has(there)) continue;
      const [dx, dy] = [this.x[there] - found.x, this.y[there] - found.y];
      const long = ((next - k) * this.step) / 1000;
      if (metres(dx, dy, found.y) > JUMP_MPS * long + 100) return true; // a jump: it stays where it was
      const share = (ms - this.start - k * this.step) / ((next - k) * this.step);
      found.x += dx * share;
      found.y += dy * share;
      return true;
    }
    return false;
  }
}
