// What both pictures share: clocks of the reader's zone, buttons, icons.

const clocks = new Map();

function clock(ms, zone, withDay = false) {
  const key = zone + withDay;
  if (!clocks.has(key)) {
    const parts = { timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    const day = { year: "numeric", month: "2-digit", day: "2-digit", timeZoneName: "short" };
    clocks.set(key, new Intl.DateTimeFormat("sv-SE", withDay ? { ...parts, ...day } : parts));
  }
  return clocks.get(key).format(ms);
}

function find(root, name) {
  return root.querySelector(`[data-part="${name}"]`);
}

function zoomButtons(root, map, home) {
  find(root, "in").onclick = () => map.zoomBy(1);
  find(root, "out").onclick = () => map.zoomBy(-1);
  find(root, "home").onclick = home;
}

// A chart's canvas with px of the screen as its units; its context, width and height.
function canvasOf(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

// Whole steps of a time axis: at most `most` of them.
const STEPS_S = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

function timeStep(spanMs, most) {
  return 1000 * (STEPS_S.find((step) => spanMs / 1000 / step <= most) || STEPS_S[STEPS_S.length - 1]);
}

// How far the zone is from UTC at a moment, ms: ticks lie on whole hours of the reader's zone.
function offsetOf(ms, zone) {
  const there = new Date(clock(ms, zone, true).slice(0, 19).replace(" ", "T") + "Z").getTime();
  return there - Math.floor(ms / 1000) * 1000;
}

function line(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

function ring(context, x, y, radius, colour, width = 2.5) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

// Streamlit also ends a run of the script that newer data has overtaken: the picture goes only with its element.
function leave(root) {
  if (root.host?.isConnected) return;
  root.odograph?.stop();
  root.odograph = null;
}
