-- Widen the scope. KEYS: the roots in order, the same as a set. ARGV: more of them.
for _, root in ipairs(ARGV) do
  if redis.call('SADD', KEYS[2], root) == 1 then
    redis.call('RPUSH', KEYS[1], root)
  end
end
return redis.call('LLEN', KEYS[1])
