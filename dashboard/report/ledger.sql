-- One row: the ledger of the day's hours (by UTC); of one vehicle only hours in which anything was not in time
SELECT count(*) AS hours, sum(generated)::bigint AS generated, sum(counted)::bigint AS counted,
       sum(late)::bigint AS late, sum(quarantined)::bigint AS quarantined,
       sum(duplicate)::bigint AS duplicate, sum(dead)::bigint AS dead, sum(missing)::bigint AS missing,
       sum(residual)::bigint AS residual
FROM (SELECT hour, NULL AS vehicle_id, generated, counted, late, quarantined, duplicate, dead, missing,
             residual FROM serving.audit_hour
      UNION ALL SELECT hour, vehicle_id, generated, counted, late, quarantined, duplicate, dead, missing,
                       NULL FROM serving.audit_vehicle) a
WHERE hour >= %(since)s AND hour < %(until)s AND vehicle_id IS NOT DISTINCT FROM %(vehicle)s
