-- One atomic step, unless the shard is somebody else's by now.
-- KEYS: the epoch of the shard, the last batch. ARGV: our epoch, the number of this batch. Then, again and again: command,
-- key, number of arguments, arguments.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] ~= '0' then
  local last = redis.call('HMGET', KEYS[2], 'epoch', 'number')
  if last[1] == ARGV[1] and tonumber(last[2]) >= tonumber(ARGV[2]) then
    return 1  -- it was given up, and has been written by another try since
  end
  redis.call('HSET', KEYS[2], 'epoch', ARGV[1], 'number', ARGV[2])
end
local at, together = 3, 4000  -- Lua hands over 8,000 values at once, at most
while at < #ARGV do
  local command, key, last = ARGV[at], ARGV[at + 1], at + 2 + tonumber(ARGV[at + 2])
  for first = at + 3, last, together do
    redis.call(command, key, unpack(ARGV, first, math.min(first + together - 1, last)))
  end
  at = last + 1
end
return 1
