-- Engines that are revved while cold, by vehicle and hour: coolant below 60 degC and more than 3000 rpm.
--
-- over: frames
-- key: hour, vehicle_id
-- A fast signal is an array with a value a sample here: array_max, array_min, aggregate and filter work on it.
SELECT window.start                                                                AS hour,
       vehicle_id,
       count(*)                                                                    AS frames,
       count_if(coolant_temp_c < 60 AND array_max(engine_rpm) > 3000)              AS cold_revved_frames,
       max(CASE WHEN coolant_temp_c < 60 THEN array_max(engine_rpm) END)           AS cold_rpm_max
FROM frames
GROUP BY window(event_time, '1 hour'), vehicle_id
