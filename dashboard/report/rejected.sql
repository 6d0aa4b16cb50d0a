-- What was received on the day and went into no window at once, by kind and reason
SELECT kind, reason, sum(messages)::bigint AS frames, sum(open)::bigint AS open
FROM (SELECT CASE kind WHEN 'late' THEN 'late' ELSE 'quarantined' END AS kind,
             CASE WHEN kind <> 'late' THEN kind END AS reason, vehicle_id, received_at, 1 AS messages,
             CASE WHEN kind = 'late' THEN (NOT repaired)::integer END AS open
      FROM serving.off_time
      UNION ALL SELECT 'dead letter', reason, vehicle_id, received_at, messages, NULL
                FROM serving.dead_letter) f
WHERE received_at >= %(since)s AND received_at < %(until)s
  AND (%(vehicle)s::text IS NULL OR vehicle_id = %(vehicle)s)
GROUP BY kind, reason ORDER BY frames DESC, kind, reason LIMIT 100
