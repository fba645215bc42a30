-- Take a shard that nobody has. KEYS: its claim, its epoch, the crawl's settings. ARGV: the worker, the length of a lease in
-- milliseconds, the version of the settings that it works by (empty: any).
-- Answers now, and, if it was free, the epoch, when the lease of an owner ended that did not give it back, and that
-- owner.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[3] ~= '' and (redis.call('HGET', KEYS[3], 'version') or '0') ~= ARGV[3] then
  return {now}
end
local last = redis.call('HMGET', KEYS[1], 'owner', 'until')
if last[1] and last[1] ~= '' and tonumber(last[2]) > now then
  return {now}
end
-- Epochs are times where they can be: should a power failure take the last second of writes, no epoch is used twice.
local epoch = math.max((tonumber(redis.call('GET', KEYS[2])) or 0) + 1, now)
redis.call('SET', KEYS[2], string.format('%.0f', epoch))
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]))
return {now, epoch, last[1] and last[1] ~= '' and last[2], last[1] or ''}
