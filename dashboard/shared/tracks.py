"""Ways of trips for other programs: GPX 1.1 and GeoJSON (RFC 7946). Frame in, bytes out.

A row a point, in order of time: ``trip_id``, ``vehicle_id``, ``segment``, ``time`` (UTC), ``lat_deg``,
``lon_deg`` (WGS 84), ``speed_kmh``. A silence or a jump of position lies between two segments of a trip.
Windows hold no height, so none is written.
"""

from typing import Any, Final
from xml.etree import ElementTree as ET

import orjson
import pandas as pd

from dashboard.shared.text import rows_of

TRACK: Final = ["trip_id", "vehicle_id", "segment", "time", "lat_deg", "lon_deg", "speed_kmh"]
GPX: Final = "http://www.topografix.com/GPX/1/1"


def to_gpx(points: pd.DataFrame) -> bytes:
    """A track a trip, a track segment a segment."""
    root = ET.Element("gpx", version="1.1", creator="Odograph", xmlns=GPX)
    for trip_id, trip in points.groupby("trip_id", sort=False):
        track = ET.SubElement(root, "trk")
        ET.SubElement(track, "name").text = f"{trip['vehicle_id'].iloc[0]} {_iso(trip['time'].iloc[0])}"
        ET.SubElement(track, "desc").text = f"Trip {trip_id}"
        for _, rows in trip.groupby("segment"):
            segment = ET.SubElement(track, "trkseg")
            for row in rows_of(rows):
                lon_deg = (round(row["lon_deg"], 6) + 180) % 360 - 180  # GPX knows no 180, but -180
                place = {"lat": f"{row['lat_deg']:.6f}", "lon": f"{lon_deg:.6f}"}
                ET.SubElement(ET.SubElement(segment, "trkpt", place), "time").text = _iso(row["time"])
    ET.indent(root)
    made: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
    return made


def to_geojson(points: pd.DataFrame) -> bytes:
    """A feature a segment, with times (``coordTimes``) and speeds of its points; of one point: a point."""
    features = []
    for (trip_id, number), segment in points.groupby(["trip_id", "segment"], sort=False):
        rows = rows_of(segment)
        places = [[round(row["lon_deg"], 6), round(row["lat_deg"], 6)] for row in rows]
        line = {"type": "LineString", "coordinates": places}
        properties = {
            "trip_id": trip_id,
            "vehicle_id": rows[0]["vehicle_id"],
            "segment": number,
            "coordTimes": [_iso(row["time"]) for row in rows],
            "speeds_kmh": [row["speed_kmh"] for row in rows],
        }
        shape = line if len(places) > 1 else {"type": "Point", "coordinates": places[0]}
        features.append({"type": "Feature", "geometry": shape, "properties": properties})
    whole = {"type": "FeatureCollection", "features": features}
    return orjson.dumps(whole, option=orjson.OPT_SERIALIZE_NUMPY)


def _iso(at: Any) -> str:
    return f"{pd.Timestamp(at).tz_convert('UTC'):%Y-%m-%dT%H:%M:%S.%fZ}"
