-- Ground truth tells of trouble codes as the vehicles set them, and of what is all but harsh driving.

COMMENT ON COLUMN odograph.truth.kind IS 'fault, code, trip, stop, harsh, harsh_near, limp_home, edge, outage, clock, clone';
COMMENT ON COLUMN odograph.truth.what IS 'the fault''s name, the kind of harsh event, the purpose of a trip, the edge; code for a trouble code (which one: details)';
