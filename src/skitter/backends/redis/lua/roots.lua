-- Widen the scope. KEYS: the roots in order, their hashes as a set. ARGV: more of them, each with its hash.
for at = 1, #ARGV, 2 do
  if redis.call('SADD', KEYS[2], ARGV[at + 1]) == 1 then
    redis.call('RPUSH', KEYS[1], ARGV[at])
  end
end
return redis.call('LLEN', KEYS[1])
