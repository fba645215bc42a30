-- Heads of lists, each with the rows that its members name.
-- KEYS[1]: the beginning of every key of the shard. ARGV: seven lists, each the number of its questions and then these, of
-- as many arguments as WIDTHS says; see store.py.
local prefix, at = KEYS[1], 1
local WIDTHS, wanted = {3, 3, 3, 1, 1, 2, 2}, {}
for list, width in ipairs(WIDTHS) do
  wanted[list] = {}
  local count = tonumber(ARGV[at])
  at = at + 1
  for number = 1, count do
    wanted[list][number] = {unpack(ARGV, at, at + width - 1)}
    at = at + width
  end
end

local function rows(hash, names)
  local found = {}
  for first = 1, #names, 4000 do
    local some = redis.call('HMGET', prefix .. hash, unpack(names, first, math.min(first + 3999, #names)))
    for _, row in ipairs(some) do
      found[#found + 1] = row
    end
  end
  return found
end

local function ids(members)
  local found = {}
  for _, member in ipairs(members) do
    found[#found + 1] = string.sub(member, -16)
  end
  return found
end

local answer = {{}, {}, {}, {}, {}, {}, {}}

for number, ask in ipairs(wanted[1]) do  -- the queue of a host's level
  answer[1][number] = rows('urls', ids(redis.call('ZRANGEBYLEX', prefix .. ask[1], ask[2], '+', 'LIMIT', 0, ask[3])))
end

for number, ask in ipairs(wanted[2]) do  -- the agenda: place, name, length of the place
  local names = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', prefix .. 'agenda', ask[1], ask[2], 'LIMIT', 0, ask[3])) do
    names[#names + 1] = string.sub(member, string.byte(member, -1) + 1, -2)
  end
  answer[2][number] = rows('hosts', names)
end

for number, ask in ipairs(wanted[3]) do  -- lists of times
  answer[3][number] = rows('urls', ids(redis.call('ZRANGEBYLEX', prefix .. ask[1], ask[2], '+', 'LIMIT', 0, ask[3])))
end

for number, ask in ipairs(wanted[4]) do  -- what is parked on a host
  answer[4][number] = rows('urls', redis.call('SMEMBERS', prefix .. ask[1]))
end

for number, ask in ipairs(wanted[5]) do  -- the page that stands for a digest
  local id = redis.call('HGET', prefix .. 'digests', ask[1])
  answer[5][number] = id and redis.call('HGET', prefix .. 'pages', id)
end

for number, ask in ipairs(wanted[6]) do  -- the page that stands for a SimHash
  local id = redis.call('HGET', prefix .. ask[1], ask[2])
  answer[6][number] = id and redis.call('HGET', prefix .. 'pages', id)
end

for number, ask in ipairs(wanted[7]) do  -- the SimHashes of a domain
  local key, limit, found, cursor = prefix .. ask[1], tonumber(ask[2]), {}, '0'
  repeat
    local step = redis.call('HSCAN', key, cursor, 'COUNT', 1000)
    cursor = step[1]
    for at = 1, #step[2], 2 do
      if #found < limit then
        found[#found + 1] = step[2][at]
      end
    end
  until cursor == '0' or #found >= limit
  answer[7][number] = found
end

return answer
