-- A sign of life. KEYS: when workers started, when they were seen, what they say, and which server heard it (a restart makes it
-- another one). ARGV: the worker, what it says.
-- Answers now and when each was seen.
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSETNX', KEYS[1], ARGV[1], now)
redis.call('HSET', KEYS[2], ARGV[1], now)
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[4], ARGV[1], string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '')
return {now, redis.call('HGETALL', KEYS[2])}
