-- Statements of copies.py.

-- name: vehicles
SELECT vehicle_id, model, powertrain, vehicle_class FROM odograph.vehicle ORDER BY vehicle_id

-- name: usual
WITH own AS (
    SELECT h.vehicle_id, v.model,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY coolant_mean_c)
               FILTER (WHERE coolant_mean_c >= %(warm_c)s) AS coolant_c,
           count(*) FILTER (WHERE coolant_mean_c >= %(warm_c)s) AS coolant_hours,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY battery_running_v) AS battery_v,
           count(battery_running_v) AS battery_hours
    FROM odograph.vehicle_hour h LEFT JOIN odograph.vehicle v USING (vehicle_id)
    WHERE bucket >= now() - make_interval(days => %(days)s) AND bucket < date_trunc('hour', now())
    GROUP BY h.vehicle_id, v.model
), known AS (
    SELECT vehicle_id, model, CASE WHEN coolant_hours >= %(hours)s THEN coolant_c END AS coolant_c,
           CASE WHEN battery_hours >= %(hours)s THEN battery_v END AS battery_v FROM own
), of_model AS (
    SELECT model, CASE WHEN count(coolant_c) > %(others)s
                       THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY coolant_c) END AS coolant_c,
           CASE WHEN count(battery_v) > %(others)s
                THEN percentile_cont(0.5) WITHIN GROUP (ORDER BY battery_v) END AS battery_v
    FROM known WHERE model IS NOT NULL GROUP BY model
)
SELECT k.vehicle_id, k.coolant_c, k.battery_v, m.coolant_c, m.battery_v
FROM known k LEFT JOIN of_model m USING (model) ORDER BY k.vehicle_id
