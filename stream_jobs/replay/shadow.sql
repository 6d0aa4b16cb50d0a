-- Statements of shadow.py.

-- name: vehicle
INSERT INTO odograph.vehicle (vehicle_id, model, powertrain, vehicle_class, state, state_at, boot_id)
VALUES (%(vehicle_id)s, %(model)s, %(powertrain)s, %(vehicle_class)s, 'online', %(stamped_from)s, %(boot_id)s)
ON CONFLICT (vehicle_id) DO UPDATE
SET model = excluded.model, powertrain = excluded.powertrain, vehicle_class = excluded.vehicle_class
