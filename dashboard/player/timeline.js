// What stands beside the map of a day: who had an alert, how a vehicle was, how many were moving in each hour.

const SEVERITIES = ["WARNING", "MINOR", "MAJOR", "CRITICAL"];

// The worst severity of each vehicle's alerts at a moment.
function alertsAt(alerts, ms) {
  const found = new Map();
  for (const one of alerts) {
    if (one.from > ms || (one.to !== null && one.to < ms)) continue;
    const known = SEVERITIES.indexOf(found.get(one.vehicle));
    if (SEVERITIES.indexOf(one.severity) > known) found.set(one.vehicle, one.severity);
  }
  return found;
}

// Vehicles moving by hour as bars under the slider, with the hours.
function drawHours(context, width, height, data) {
  const { since, until } = data.day;
  const x = (ms) => ((ms - since) / (until - since)) * width;
  const most = Math.max(1e-9, ...data.hours.map((hour) => hour.moving));
  const base = height - 16;
  context.font = "11px sans-serif";
  context.fillStyle = data.tone.line;
  for (const { ms, moving } of data.hours) {
    const tall = (moving / most) * (base - 14);
    context.fillRect(x(ms) + 1, base - tall, Math.max(1, x(ms + 3600000) - x(ms) - 2), tall);
  }
  context.fillStyle = data.tone.ink;
  context.strokeStyle = data.tone.grid;
  line(context, 0, base, width, base);
  context.textAlign = "left";
  context.fillText(data.hours.length ? `vehicles moving, mean of each hour (most ${most.toFixed(1)})` : "no hour of this day is rolled up yet", 0, 10);
  const step = timeStep(until - since, width / 60);
  for (let ms = since; ms < until; ms += step) context.fillText(clock(ms, data.zone).slice(0, 5), x(ms), height - 3);
}

function cardLines(id, one, severity, zone) {
  if (!one) return [id, "not seen up to this moment"];
  const lines = [id, `${one.state}${one.speed === null ? "" : `, ${one.speed} km/h`}`];
  if (one.state === "silent") lines.push(`last data ${clock(one.ms, zone)}`);
  if (severity) lines.push(`active alert: ${severity}`);
  return lines;
}
