// The stretches that are there, and which one to ask for next: one question at a time.

const KEPT = 6;
const AGAIN_MS = 5000;

class Stock {
  constructor() {
    this.kept = new Map();
    this.plan = { step_ms: 0, stretch_ms: 1 };
  }

  // Another cut of the day makes what is there useless.
  cut(plan, anyway) {
    const same = plan.step_ms === this.plan.step_ms && plan.stretch_ms === this.plan.stretch_ms;
    this.plan = plan;
    if (same && !anyway) return;
    this.kept.clear();
    this.asked = null;
  }

  startOf(ms) {
    return Math.floor(ms / this.plan.stretch_ms) * this.plan.stretch_ms;
  }

  at(ms) {
    return this.kept.get(this.startOf(ms));
  }

  take(packed) {
    if (!packed || packed.step_ms !== this.plan.step_ms || this.kept.has(packed.start_ms)) return;
    const fresh = new Stretch(packed);
    const earlier = this.kept.get(fresh.start - this.plan.stretch_ms);
    if (earlier) fresh.follows(earlier);
    this.kept.set(fresh.start, fresh);
    while (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    if (this.asked === fresh.start) this.asked = null;
  }

  // What to ask for: the stretch of a moment, or ahead of need (`ahead`: up to a time) the next one; null: nothing.
  wanted(ms, ahead) {
    const here = this.startOf(ms);
    const next = here + this.plan.stretch_ms;
    let missing = null;
    if (!this.kept.has(here)) missing = here;
    else if (ahead !== null && next < ahead && !this.kept.has(next)) missing = next;
    if (missing === null || (this.asked === missing && performance.now() - this.askedAt < AGAIN_MS)) return null;
    this.asked = missing;
    this.askedAt = performance.now();
    return { start_ms: missing, before: !this.kept.has(missing - this.plan.stretch_ms), id: `${Date.now()}-${missing}` };
  }
}
