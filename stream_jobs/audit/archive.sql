-- Statements of archive.py.

-- name: records
CREATE OR REPLACE TEMP VIEW record AS
SELECT vehicle_id, boot_id, seq, topic, partition, log, log_offset, received_ms, t0_ms, verdict,
       CASE WHEN verdict IN ('ok', 'late', 'erased') THEN t0_ms ELSE received_ms END AS at_ms,
       {whole} OR at_ms >= {since} AND at_ms < {until} AND received_ms < {seen} AS inside
FROM {files} WHERE NOT (topic = {topic} AND log IN ('', {log}) AND ({beyond}))

-- name: nothing
(SELECT '' AS vehicle_id, 0::BIGINT AS boot_id, 0::BIGINT AS seq, '' AS topic, 0 AS partition, '' AS log,
        0::BIGINT AS log_offset, 0::BIGINT AS received_ms, 0::BIGINT AS t0_ms, '' AS verdict WHERE false)

-- name: devices
SELECT vehicle_id, boot_id,
       coalesce(min(seq) FILTER (seq >= 0), 0) AS first_seq,
       coalesce(max(seq) FILTER (seq >= 0), -1) AS last_seq,
       count_if(seq >= 0) AS generated, count_if(seq >= 0 OR kinds & 8 = 0) AS "distinct",
       count_if(kinds & 16 = 0) AS backfilled, count_if(kinds & 1 > 0) AS in_time,
       count_if(seq >= 0 AND kinds & 3 = 2) AS late, count_if(seq >= 0 AND kinds & 7 = 4) AS quarantined,
       count_if(seq >= 0 AND kinds & 7 = 0) AS erased {sums}
FROM {rows} GROUP BY ALL

-- name: sums
     , count(*) AS records, count_if(kinds & 8 > 0) AS erased_records,
       count_if(seq < 0 AND kinds & 8 > 0) AS erased_nameless, count_if(kinds & 1 > 0) AS in_time_records,
       count_if(kinds & 2 > 0) AS late_records, count_if(kinds & 4 > 0) AS quarantined_records,
       count_if(kinds & 16 = 0) AS backfilled_records, count_if(of_other_log) AS of_other_logs,
       sum(seq) AS total,
       coalesce(sum(seq::HUGEINT * seq) FILTER (seq < 1::BIGINT << 40), 0) AS squares

-- name: gaps
SELECT vehicle_id, boot_id, seq + 1,
       lead(seq) OVER (PARTITION BY vehicle_id, boot_id ORDER BY seq) - 1 AS last_seq
FROM identity WHERE seq >= 0 QUALIFY last_seq > seq ORDER BY ALL

-- name: following
SELECT vehicle_id, boot_id, min(seq) FROM record
WHERE verdict IN ('ok', 'late', 'erased') AND t0_ms >= $until GROUP BY ALL

-- name: elsewhere
SELECT DISTINCT r.vehicle_id, r.boot_id, r.seq
FROM record r JOIN gap g ON r.vehicle_id = g.vehicle_id AND r.boot_id = g.boot_id
                        AND r.seq BETWEEN g.first_seq AND g.last_seq

-- name: around
SELECT g.vehicle_id, g.boot_id, g.first_seq,
       coalesce(arg_max(r.received_ms, r.seq) FILTER (r.seq < g.first_seq), '-inf'::DOUBLE),
       coalesce(arg_min(r.received_ms, r.seq) FILTER (r.seq > g.last_seq), 'inf'::DOUBLE)
FROM gap g LEFT JOIN record r ON r.vehicle_id = g.vehicle_id AND r.boot_id = g.boot_id AND r.seq >= 0
GROUP BY ALL

-- name: again
SELECT vehicle_id, sum(moments - 1)::BIGINT
FROM (SELECT vehicle_id, count(DISTINCT t0_ms) AS moments FROM record
      WHERE {vehicles} AND verdict = 'ok' AND inside GROUP BY vehicle_id, boot_id, seq)
GROUP BY ALL

-- name: partitions
SELECT topic, partition, log, count(*), min(log_offset), max(log_offset),
       sum(log_offset::HUGEINT), sum(log_offset::HUGEINT * log_offset)
FROM record WHERE received_ms >= $since AND received_ms < $until GROUP BY ALL ORDER BY ALL

-- name: open
SELECT count(*) FROM record
WHERE at_ms >= $since AND at_ms < $end AND (at_ms >= $until OR received_ms >= $seen)

-- name: windows
SELECT t0_ms // $window * $window, count(DISTINCT (boot_id, seq)), max(boot_id), min(seq), max(seq)
FROM record WHERE vehicle_id = $vehicle AND verdict = 'ok' AND inside GROUP BY 1

-- name: clones
WITH boot AS (
    SELECT vehicle_id, boot_id, min(t0_ms) AS from_ms, max(t0_ms + span_ms) AS to_ms,
           min(received_ms) AS first_ms, max(received_ms) AS last_ms
    FROM read_parquet(?, hive_partitioning = false)
    WHERE verdict IN ('ok', 'late')
    GROUP BY vehicle_id, boot_id
)
SELECT a.vehicle_id, a.boot_id, b.boot_id,
       least(a.to_ms, b.to_ms) - greatest(a.from_ms, b.from_ms) AS overlap_ms
FROM boot a JOIN boot b ON a.vehicle_id = b.vehicle_id AND a.boot_id < b.boot_id
WHERE overlap_ms > ? AND least(a.last_ms, b.last_ms) - greatest(a.first_ms, b.first_ms) > ?
ORDER BY ALL

-- name: each
(SELECT vehicle_id, boot_id, seq,
        CASE verdict WHEN 'ok' THEN 1 WHEN 'late' THEN 2 WHEN 'erased' THEN 8 ELSE 4 END::UTINYINT
            | CASE WHEN coalesce(list_contains($live, topic), true) THEN 16 ELSE 0 END::UTINYINT AS kinds,
        list_contains($live, topic) AND log <> '' AND NOT list_contains($logs, log) AS of_other_log
 FROM record WHERE inside)

-- name: identities
CREATE OR REPLACE TEMP TABLE identity AS
SELECT vehicle_id, boot_id, seq, bit_or(kinds) AS kinds
FROM {each} SEMI JOIN doubtful USING (vehicle_id, boot_id) WHERE hash(vehicle_id) % $shares = $share
GROUP BY ALL
