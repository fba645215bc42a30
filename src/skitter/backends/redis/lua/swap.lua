-- Replace a text if it is still the one that was seen; nothing there is an empty one. KEYS: where it is. ARGV: the one
-- that was seen, the new one. Answers which one is there now.
local there = redis.call('GET', KEYS[1]) or ''
if there ~= ARGV[1] or ARGV[2] == there then
  return there
end
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]
