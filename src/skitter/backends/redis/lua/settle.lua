-- Replace the settings if their version is still the one that was seen. KEYS: where they are. ARGV: that version, the new
-- settings. Answers whether it was.
if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', ARGV[1] + 1), 'words', ARGV[2])
return 1
