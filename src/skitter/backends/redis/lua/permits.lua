-- Leases of permits to send to addresses, by the clock of this server. KEYS: one hash per address; in it, for each worker,
-- what it has, what it wants, until when, and since when it has something or nothing; and under "next" when the next
-- request may begin. ARGV: the worker, the length of a lease, all the permits of an address, its delay, how long one may
-- keep permits that another waits for (times in milliseconds); then for each address: permits wanted, permits that it
-- keeps anyway, and how long the next request has to wait.
-- Answers for each address: the permits leased, how many of them may be used from now on, and how long to wait first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local me, term, all, delay, tenure = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local answers = {}

for number, key in ipairs(KEYS) do
  local want, keep, rest = tonumber(ARGV[3 * number + 3]), tonumber(ARGV[3 * number + 4]), tonumber(ARGV[3 * number + 5])
  local mine, since, next = 0, now, 0
  local others, active, short, waiting = 0, 1, false, {}
  local found = redis.call('HGETALL', key)
  for at = 1, #found, 2 do
    local name, value = found[at], found[at + 1]
    if name == 'next' then
      next = math.max(next, tonumber(value))
    else
      local count, wanted, ends, from = string.match(value, '(%d+) (%d+) (%d+) (%d+)')
      count, wanted, ends, from = tonumber(count), tonumber(wanted), tonumber(ends), tonumber(from)
      if ends <= now then  -- it died, or was cut off: its last request began before its lease ended
        redis.call('HDEL', key, name)
        if count > 0 and delay > 0 then
          next = math.max(next, ends + delay)
        end
      elseif name == me then
        mine, since = count, from
      else
        others, active = others + count, active + 1
        short = short or wanted > count
        if count == 0 then
          waiting[#waiting + 1] = from
        end
      end
    end
  end

  -- Whoever has too little gets an equal part. With fewer permits than workers, they take turns.
  local most = want
  if short and all >= active then
    most = math.min(want, math.ceil(all / active))
  elseif short and mine > 0 and #waiting > 0 and now - since >= tenure then
    most = 0
  elseif short then
    most = math.min(want, 1)
  end
  local free = all - others
  if mine == 0 then  -- who has waited longer goes first
    for _, from in ipairs(waiting) do
      if from < since then
        free = free - 1
      end
    end
  end
  local count = math.max(keep, math.min(most, free), 0)
  if (mine == 0) ~= (count == 0) then
    since = now
  end

  if delay > 0 and rest > 0 then
    next = math.max(next, now + rest)
  end
  if want == 0 and count == 0 then
    redis.call('HDEL', key, me)
  else
    redis.call('HSET', key, me, string.format('%.0f %.0f %.0f %.0f', count, want, now + term, since))
  end
  if next > now then
    redis.call('HSET', key, 'next', string.format('%.0f', next))
  end
  redis.call('PEXPIRE', key, string.format('%.0f', 2 * term + delay))
  answers[number] = {count, math.min(count, most), math.max(0, math.ceil(next - now))}
end
return answers
