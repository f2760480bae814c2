-- Milliseconds after which a process that has not asked for a role again is no standby any more; how often its record is renewed; the
-- most records.
local STANDBY_TTL, STANDBY_INTERVAL, MAX_STANDBYS = 5000, 1000, 100
