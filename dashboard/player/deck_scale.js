// A scale bar on each of Streamlit's maps. It has none, and tells nobody where it looks but its own deck, which
// React keeps among the hooks above the canvas.

const EVERY_MS = 200;

function deckOf(canvas) {
  const key = Object.keys(canvas).find((name) => name.startsWith("__reactFiber$"));
  for (let fiber = canvas[key]; fiber; fiber = fiber.return) {
    for (let hook = fiber.memoizedState; hook?.next !== undefined; hook = hook.next) {
      if (hook.memoizedState?.current?.deck) return hook.memoizedState.current.deck;
    }
  }
  return null;
}

function drawScale(chart) {
  const canvas = chart.querySelector("#deckgl-overlay");
  const deck = canvas && deckOf(canvas);
  const view = deck?.isInitialized && deck.getViewports()[0];
  if (!view) return;
  let bar = chart.querySelector(".scale");
  if (!bar) {
    bar = document.createElement("div");
    bar.className = "scale";
    chart.appendChild(bar);
  }
  const round = EQUATOR_M * Math.cos((view.latitude * Math.PI) / 180);
  const [words, px] = scaleBar(round / (512 * 2 ** view.zoom));
  if (bar.textContent !== words) bar.textContent = words;
  bar.style.width = `${px.toFixed(1)}px`;
}

window.odographScale ??= setInterval(() => {
  document.querySelectorAll("[data-testid=stDeckGlJsonChart]").forEach(drawScale);
}, EVERY_MS);
