// Places as Web Mercator in 0..1, roads in it, and small arithmetic.

function worldX(lon) {
  return (lon + 180) / 360;
}

function worldY(lat) {
  const s = Math.sin((lat * Math.PI) / 180);
  return 0.5 - Math.log((1 + s) / (1 - s)) / (4 * Math.PI);
}

function degrees(x, y) {
  return [x * 360 - 180, (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI];
}

// Metres of a path in world units at a latitude.
function metres(dx, dy, y) {
  return (Math.hypot(dx, dy) * EQUATOR_M) / Math.cosh(Math.PI * (1 - 2 * y));
}

function road(row) {
  const points = new Float64Array(row.p.length * 2);
  const box = [1, 1, 0, 0];
  row.p.forEach(([lon, lat], k) => {
    const [x, y] = [worldX(lon), worldY(lat)];
    points.set([x, y], 2 * k);
    box[0] = Math.min(box[0], x);
    box[1] = Math.min(box[1], y);
    box[2] = Math.max(box[2], x);
    box[3] = Math.max(box[3], y);
  });
  return { points, box, major: row.w > 1 };
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function apart(a, b) {
  return Math.hypot(a[0] - b[0], a[1] - b[1]);
}
