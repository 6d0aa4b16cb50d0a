-- How much time the whole fleet spends at which speed, by minute: steps of 10 km/h, so 50 means 50 to 60 km/h.
--
-- The keys `over` and `key` are read by the stream application. The file's name is the table's: user_sql.time_by_speed.
-- Views: `frames`, a row a frame, where fast signals are arrays; `samples`, a row a sample.
-- over: samples
-- key: minute, from_kmh
-- The view has event_time, received_at, vehicle_id, boot_id, seq, sample, dt_ms and every signal of the contract.
-- event_time carries the watermark: group by window(event_time, ...), or the state grows for ever.
SELECT window.start                            AS minute,
       cast(floor(speed_kmh / 10) * 10 AS int) AS from_kmh,
       sum(dt_ms) / 1000                       AS time_s,
       approx_count_distinct(vehicle_id)       AS vehicles
FROM samples
WHERE speed_kmh IS NOT NULL
GROUP BY window(event_time, '1 minute'), cast(floor(speed_kmh / 10) * 10 AS int)
