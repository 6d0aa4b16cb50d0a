-- Statements of mirror.py.

-- name: copies_to
SELECT copies_to FROM odograph.region

-- name: came
UPDATE odograph.uncopied SET came_at = now()
WHERE came_at IS NULL AND region = %s AND topic = %s AND partition = %s AND known_to <= %s
