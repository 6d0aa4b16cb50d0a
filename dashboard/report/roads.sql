-- Where traffic lost most time
SELECT * FROM serving.road_delay_on(%(day)s) WHERE delay_s > 0 ORDER BY delay_s DESC, road LIMIT 10
