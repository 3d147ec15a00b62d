-- Notes that a process is present, and counts those that are.
--
-- The key is a sorted set: a member for each process, with the moment at which it is silent for too
-- long (ms of this server's clock). It gets a time to live with every write.
--
-- KEYS  1 who is present.
-- ARGV  1 the process (16 bytes); 2 for how long it is present in ms.
--
-- Returns how many are.

local call, PRESENT, life = redis.call, KEYS[1], ARGV[2]
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
call('ZADD', PRESENT, string.format('%.0f', now + life), ARGV[1])
call('ZREMRANGEBYSCORE', PRESENT, '-inf', string.format('%.0f', now))
call('PEXPIRE', PRESENT, life)
return call('ZCARD', PRESENT)
