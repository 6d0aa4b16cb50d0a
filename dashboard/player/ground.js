// What a map of our own stands on: a MapLibre style, drawn under the roads. Where it cannot be drawn (no WebGL, a
// style that is away) the ground stays of one colour.

const MAPLIBRE = "/map/maplibre-gl.js";

// Once for all pictures of a page.
function maplibre() {
  window.odographMaplibre ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = MAPLIBRE;
    script.onload = () => resolve(window.maplibregl);
    script.onerror = reject;
    document.head.appendChild(script);
  });
  return window.odographMaplibre;
}

class Ground {
  constructor(box, onChange) {
    this.box = document.createElement("div");
    this.box.className = "base";
    box.appendChild(this.box);
    this.onChange = onChange;
    this.drawn = false;
  }

  dress(style) {
    const words = JSON.stringify(style);
    if (!style || words === this.words) return;
    this.words = words;
    if (this.map) this.map.setStyle(style);
    else maplibre().then((library) => !this.stopped && !this.map && this.begin(library)).catch(() => {});
  }

  begin(library) {
    const style = JSON.parse(this.words);
    const still = { interactive: false, attributionControl: false, fadeDuration: 0 };
    this.map = new library.Map({ container: this.box, style, ...still });
    this.map.on("load", () => {
      this.drawn = true;
      this.onChange();
    });
    this.onChange();
  }

  // Whether the ground is drawn, with this place of the world in its middle.
  look(x, y, zoom) {
    this.map?.jumpTo({ center: degrees(x, y), zoom });
    return this.drawn;
  }

  stop() {
    this.stopped = true;
    this.map?.remove();
  }
}
