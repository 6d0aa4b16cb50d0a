"""The basemap that a setting names: a MapLibre style at an address, or the tiles of a local PMTiles file.

What cannot be used is a sentence in ``problem``, never an exception: maps then stand on coast lines.
"""

import html
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from pmtiles.reader import Reader
from pmtiles.tile import Compression, MagicNumberNotFound, SpecVersionUnsupported, TileType

from infra.contract.errors import ConfigError

OPTION: Final = "ODOGRAPH_DASHBOARD_BASEMAP"
ANSWER_S: Final = 5.0
MEDIA: Final = {TileType.PNG: "image/png", TileType.JPEG: "image/jpeg", TileType.WEBP: "image/webp",
                TileType.MVT: "application/vnd.mapbox-vector-tile"}  # fmt: skip
PACKED: Final = {Compression.NONE: {}, Compression.GZIP: {"Content-Encoding": "gzip"}}
_TAG: Final = re.compile(r"<[^>]*>")
_NONE: Final = (MagicNumberNotFound, SpecVersionUnsupported)
_BROKEN: Final = (struct.error, zlib.error, ValueError, LookupError, TypeError, AttributeError, EOFError)
"""What reading a file raises that is none; that is cut off, or is not what it says."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """A PMTiles file; ``layers`` are those of vector tiles, None: the tiles are images."""

    reader: Any
    version: str
    zooms: tuple[int, int]
    layers: tuple[str, ...] | None
    headers: dict[str, str]

    def get(self, zoom: int, column: int, row: int) -> bytes | None:
        """A tile as it is stored, to be served with ``headers``; None: none, or the file has changed."""
        try:
            found: bytes | None = self.reader.get(zoom, column, row)
        except (*_BROKEN, *_NONE, OSError):
            return None
        return found or None


@dataclass(frozen=True, slots=True)
class Basemap:
    """What maps stand on: the style at ``style_url``, ``tiles``, or neither: coast lines."""

    style_url: str = ""
    tiles: Tiles | None = None
    attribution: str = ""
    problem: str = ""


def find(named: str) -> Basemap:
    """The basemap that the setting names, as far as it can be used at this moment."""
    try:
        if named.startswith(("http://", "https://")):
            return _style(named)
        return _file(Path(named)) if named else Basemap()
    except ConfigError as error:
        shown = named.partition("?")[0]  # what stands behind it may be the key of a service
        return Basemap(problem=f"{OPTION} {shown}: {error}. Maps show coast lines and borders instead")


def _style(url: str) -> Basemap:
    style = _fetched(url)
    parts = isinstance(style.get("sources"), dict), isinstance(style.get("layers"), list)
    if style.get("version") != 8 or not all(parts):
        raise ConfigError("no MapLibre style (a JSON object with version 8, sources and layers)")
    words = []
    for source in style["sources"].values():
        known = source if isinstance(source, dict) else {}
        elsewhere = (
            known.get("type") in ("vector", "raster") and "attribution" not in known and "url" in known
        )
        words.append((_fetched(str(known["url"])) if elsewhere else known).get("attribution"))
    return Basemap(style_url=url, attribution=_plain(words))


def _fetched(url: str) -> dict[str, Any]:
    try:
        answer = httpx.get(url, timeout=ANSWER_S, follow_redirects=True).raise_for_status()
        found = answer.json()
    except httpx.HTTPStatusError as error:
        raise ConfigError(f"{url.partition('?')[0]} answered {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigError(f"{url.partition('?')[0]} cannot be reached ({error})") from error
    except ValueError as error:
        raise ConfigError(f"{url.partition('?')[0]} is no JSON ({error})") from error
    return found if isinstance(found, dict) else {}


def _file(path: Path) -> Basemap:
    def read(offset: int, length: int) -> bytes:  # not mapped: a file that shrinks would end the process
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    try:
        reader = Reader(read)
        header, metadata = reader.header(), reader.metadata()
        reader.get(0, 0, 0)  # reads the directory
        version = f"{path.stat().st_mtime_ns}-{path.stat().st_size}"
        kind, packed = header["tile_type"], header["tile_compression"]
        vector = [str(layer["id"]) for layer in metadata.get("vector_layers", ())]
        attribution = _plain([metadata.get("attribution")])
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror or error})") from error
    except _NONE as error:
        raise ConfigError("no PMTiles file of version 3, nor the http(s):// address of a style") from error
    except _BROKEN as error:
        raise ConfigError(f"no whole PMTiles file ({type(error).__name__}: {error})") from error
    wrong = {
        f"tiles of vectors (MVT), PNG, JPEG or WebP are wanted, not {kind.name}": kind not in MEDIA,
        f"tiles without packing or by gzip are wanted, not {packed.name}": packed not in PACKED,
        "its metadata name no vector_layers": kind == TileType.MVT and not vector,
    }
    for reason, found in wrong.items():
        if found:
            raise ConfigError(reason)
    headers = {"Content-Type": MEDIA[kind], "Cache-Control": "max-age=86400"} | PACKED[packed]
    layers = tuple(vector) if kind == TileType.MVT else None
    zooms = (header["min_zoom"], header["max_zoom"])
    return Basemap(tiles=Tiles(reader, version, zooms, layers, headers), attribution=attribution)


def _plain(words: list[Any]) -> str:
    """Attributions, each once, as text."""
    texts = [html.unescape(_TAG.sub("", text)).strip() for text in words if isinstance(text, str)]
    return " · ".join(dict.fromkeys(filter(None, texts)))
