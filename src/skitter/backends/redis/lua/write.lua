-- One atomic step, unless the shard is somebody else's by now.
-- KEYS[1]: the epoch of the shard. ARGV[1]: ours. Then, again and again: command, key, number of arguments, arguments.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local at, together = 2, 4000  -- Lua hands over 8,000 values at once, at most
while at < #ARGV do
  local command, key, last = ARGV[at], ARGV[at + 1], at + 2 + tonumber(ARGV[at + 2])
  for first = at + 3, last, together do
    redis.call(command, key, unpack(ARGV, first, math.min(first + together - 1, last)))
  end
  at = last + 1
end
return 1
