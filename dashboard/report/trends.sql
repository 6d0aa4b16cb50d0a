-- Lines that head for their thresholds, the nearest first: as known now
SELECT * FROM serving.vehicle_trend
WHERE days_to_threshold IS NOT NULL AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
ORDER BY days_to_threshold, vehicle_id, metric LIMIT 1000
