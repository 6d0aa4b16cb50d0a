-- Statements of cli.py.

-- name: edge
SELECT road_class || ' ' || edge_id AS place, t.* FROM serving.road_edge_at(%(at)s) t

-- name: cell
SELECT cell || ' ' || substr('?NESW', heading_sector + 2, 1) AS place, t.* FROM serving.road_cell_at(%(at)s) t

-- name: slowest
SELECT {columns} FROM ({places}) p WHERE speed_ratio IS NOT NULL ORDER BY speed_ratio, place LIMIT %(limit)s
