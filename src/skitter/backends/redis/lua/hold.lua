-- Keep a shard for another lease, or give it back. KEYS: its claim, its epoch. ARGV: the worker, the epoch, the length of a
-- lease in milliseconds, 0 to give it back. Answers whether it was ours.
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then
  return 0
end
if ARGV[3] == '0' then
  redis.call('HSET', KEYS[1], 'owner', '', 'until', '0')
else
  local time = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'until', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]))
end
return 1
