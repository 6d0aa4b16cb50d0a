-- Statements of verify.py.

-- name: faults
-- By offset of a partition the first and last that lack behind it, and how many copies of it there are.
SELECT log_offset + 1, coalesce(lead(log_offset) OVER (ORDER BY log_offset) - 1, log_offset) AS last, n - 1
FROM (SELECT log_offset, count(*) AS n FROM {records}
      WHERE topic = $topic AND partition = $partition AND log = $log AND log_offset BETWEEN $first AND $last
      GROUP BY 1)
QUALIFY last > log_offset OR n > 1 ORDER BY 1
