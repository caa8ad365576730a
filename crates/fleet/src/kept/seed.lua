-- Returns the seed of the fleet. The first server that asks brings it.
-- KEYS: the seed. ARGV: one for a fleet without any.
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
