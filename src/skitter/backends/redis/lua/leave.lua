-- Leave an answer for everybody and give the lock back, unless it has run out or was taken away: then somebody else answers.
-- KEYS: the lock, the value. ARGV: our token, the value, its time to live in milliseconds (0: it is not kept).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[3] ~= '0' then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return redis.call('DEL', KEYS[1])
