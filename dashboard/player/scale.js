// A scale bar: the longest round length that fits; its words and its width, px.
const SCALE_MOST_PX = 110;
const EQUATOR_M = 40075017; // once round it

function scaleBar(metresPerPx) {
  const room = metresPerPx * SCALE_MOST_PX;
  const unit = 10 ** Math.floor(Math.log10(room));
  const metres = unit * [5, 2, 1].find((step) => step * unit <= room);
  return [metres < 1000 ? `${metres} m` : `${metres / 1000} km`, metres / metresPerPx];
}
