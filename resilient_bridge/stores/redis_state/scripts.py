"""The Lua scripts of a RedisState, for circuits, retry budgets and limits; each call is atomic.

Rule: only these scripts write what is shared. They use the server's clock, and get all
settings with the call; if those of two processes differ, the last call counts. A circuit or budget
is one key that expires when it is not used; without its key a circuit is closed and a budget is
full. The semantics are those of the circuits and budgets of one process (`calls`), and the same
tests check both.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final


FORMAT: Final = "1"
"""The version of the keys' contents, and part of their names: two formats share no keys."""
CHECK_TTL: Final = 60_000
"""Milliseconds until the key that is written to check a server expires."""


class Script:
    """A script, and the hash by which EVALSHA calls it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = sha1(text.encode(), usedforsecurity=False).hexdigest()


# ARGV: kind of window, its size (calls, or ms of a bucket), what opens the circuit (a rate, and the
# fewest calls), probes, lease in ms, ttl in ms, ttl of a state set by hand, open times in s, how
# many probes are asked for, the state to set by hand; then four for each row of outcomes: era,
# probe (0: none), outcomes, code of the failure.
# Outcomes: s succeeded, f failed, F failed and slow, c critical, r released.
CIRCUIT: Final = Script("""
local key = KEYS[1]
local kind, size = ARGV[1], tonumber(ARGV[2])
local rate, few = string.match(ARGV[3], '(%S+) (%S+)')
local need, least = tonumber(rate), tonumber(few)
local probes, lease, ttl, ttl_by_hand = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local wanted, put = tonumber(ARGV[9]), ARGV[10]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local names = {'state', 'era', 'said', 'why', 'because', 'ends', 'openings', 'wait', 'kind', 'window', 'passed', 'leases', 'last'}
local found = redis.call('HMGET', key, unpack(names))
local c = {}
for i, name in ipairs(names) do c[name] = found[i] or '' end
local is_there, is_changed = found[1], false
if not is_there then c.state = 'closed' end
for _, name in ipairs({'era', 'ends', 'openings', 'passed', 'last'}) do c[name] = tonumber(c[name]) or 0 end

local leases, living = {}, 0
for probe, ends in string.gmatch(c.leases, '(%d+):(%d+)') do
  if tonumber(ends) > now then leases[probe] = tonumber(ends); living = living + 1 end
end

-- the window: a number of failures, a text of 0 and 1, or a list of {bucket, seen, failed}
local row, bits, buckets, seen, failed = 0, '', {}, 0, 0
local window = c.kind == kind and c.window or ''
if kind == 'row' then row = tonumber(window) or 0
elseif kind == 'calls' then bits = string.sub(window, -size)
else
  for bucket, all, bad in string.gmatch(window, '(%d+):(%d+):(%d+)') do
    if tonumber(bucket) > math.floor(now / size) - 20 then
      buckets[#buckets + 1] = {tonumber(bucket), tonumber(all), tonumber(bad)}
      seen = seen + all; failed = failed + bad
    end
  end
end

local function failures() return select(2, string.gsub(bits, '1', '')) end
local function clear() row, bits, buckets, seen, failed = 0, '', {}, 0, 0 end
local function bucket()
  local number = math.floor(now / size)
  if #buckets == 0 or buckets[#buckets][1] < number then buckets[#buckets + 1] = {number, 0, 0} end
  return buckets[#buckets]
end
local function good()
  if kind == 'row' then row = 0
  elseif kind == 'calls' then bits = string.sub(bits .. '0', -size)
  else local b = bucket(); b[2] = b[2] + 1; seen = seen + 1 end
end
local function bad()
  if kind == 'row' then row = row + 1; return row >= size end
  if kind == 'calls' then bits = string.sub(bits .. '1', -size); return #bits >= least and failures() >= need * #bits - 1e-9 end
  local b = bucket(); b[2] = b[2] + 1; b[3] = b[3] + 1; seen = seen + 1; failed = failed + 1
  return seen >= least and failed >= need * seen - 1e-9
end
local function reason()
  if kind == 'row' then return 'consecutive_failures_' .. row end
  if kind == 'calls' then return 'failure_rate_' .. failures() .. '_of_' .. #bits end
  return 'failure_rate_' .. failed .. '_of_' .. seen
end

local function change(state, why)
  c.state, c.said, c.passed = state, why, 0
  c.era = math.max(c.era + 1, now)
  leases, living = {}, 0
  if state ~= 'open' then c.ends = 0 end
  if state == 'closed' then clear(); c.openings = 0; c.wait = '' end
  if state == 'open' or state == 'isolated' then c.why = why end
  if state ~= 'open' and state ~= 'half_open' then c.because = '' end
  is_changed = true
end
local function open(why, code)
  local waits = {}
  for wait in string.gmatch(ARGV[8], '%S+') do waits[#waits + 1] = wait end
  local openings = c.openings + 1
  local wait = waits[math.min(openings, #waits)]
  change('open', why)
  c.openings, c.wait, c.because = openings, wait, code
  c.ends = now + math.ceil(tonumber(wait) * 1000)
end
local function named(outcome, why)
  if outcome == 'c' then return 'critical' end
  return outcome == 'F' and 'slow_' .. why or why
end

local function probe_ended(probe, outcome, code)
  local ends = leases[probe]
  if not ends then return end
  leases[probe] = nil; living = living - 1; is_changed = true
  if outcome == 's' then
    if kind == 'row' then row = 0 end
    c.passed = c.passed + 1
    if c.passed >= probes then change('closed', 'request_success') end
  elseif outcome ~= 'r' then
    if kind == 'row' then row = row + 1 end
    open(named(outcome, kind == 'row' and reason() or 'probe_failed'), code)
  end
end

if put ~= '' then
  if put ~= c.state then change(put, put == 'closed' and 'manual_reset' or put)
  elseif put == 'closed' then change(put, c.said) end
end
for i = 11, #ARGV, 4 do
  local era, probe, outcomes, code = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if era == c.era and probe ~= '0' then probe_ended(probe, outcomes, code)
  elseif era == c.era and c.state == 'closed' then
    for outcome in string.gmatch(outcomes, '.') do
      if outcome == 's' then good()
      elseif bad() or outcome == 'c' then open(named(outcome, reason()), code); break end
    end
    is_changed = true
  end
end
local granted = {}
if wanted > 0 then
  if c.state == 'open' and now >= c.ends then change('half_open', 'reset_timeout_elapsed') end
  while c.state == 'half_open' and #granted < wanted and living < math.max(1, probes - c.passed) do
    c.last = c.last + 1
    leases[tostring(c.last)] = now + lease; living = living + 1
    granted[#granted + 1] = tostring(c.last); is_changed = true
  end
end

-- the answer
local margin, quiet, hint, free = 1, 0, 0, 0
local shown_failed, shown_seen = failed, seen
if kind == 'row' then
  margin = size - row; quiet = row == 0 and 1 or 0; shown_failed, shown_seen = math.min(row, size), size
elseif kind == 'calls' then
  local clean = not string.find(bits, '1', 1, true)
  margin = math.max(least - #bits, math.ceil(need * #bits - failures() - 1e-9))
  quiet = clean and #bits == size and 1 or 0; shown_failed, shown_seen = failures(), #bits
else
  local rest = need < 1 and math.ceil((need * seen - failed) / (1 - need) - 1e-9) or (failed < seen and 1e6 or 1)
  margin = math.max(least - seen, rest)
end
local first = now + 1000
for _, ends in pairs(leases) do first = math.min(first, ends) end
if c.state == 'half_open' then
  free = math.max(1, probes - c.passed) - living
  if free <= 0 then hint = first - now end
elseif c.state == 'open' and now >= c.ends then free = probes end

local function whole(number) return string.format('%.0f', number) end
if is_changed then
  c.kind = kind
  if kind == 'row' then c.window = whole(row) elseif kind == 'calls' then c.window = bits
  else
    local list = {}
    for _, b in ipairs(buckets) do list[#list + 1] = whole(b[1]) .. ':' .. b[2] .. ':' .. b[3] end
    c.window = table.concat(list, ' ')
  end
  local list = {}
  for probe, ends in pairs(leases) do list[#list + 1] = probe .. ':' .. whole(ends) end
  c.leases = table.concat(list, ' ')
  local values = {}
  for _, name in ipairs(names) do
    values[#values + 1] = name
    values[#values + 1] = type(c[name]) == 'number' and whole(c[name]) or c[name]
  end
  redis.call('HSET', key, unpack(values))
end
if is_there or is_changed then
  redis.call('PEXPIRE', key, (c.state == 'isolated' or c.state == 'disabled') and ttl_by_hand or ttl)
end
local left = c.state == 'open' and math.max(0, c.ends - now) or 0
return {c.state, whole(c.era), c.said, c.why, c.because, whole(left), whole(shown_failed), whole(shown_seen),
  whole(math.max(1, margin)), quiet, whole(c.openings), c.wait, free, whole(hint), table.concat(granted, ' ')}
""")

# ARGV: ratio, floor, calls to count, retries asked for, retries given back, ttl in ms.
# A call earns in its second and the nine after it; a retry counts for one second more, so rounding
# never allows more retries.
BUDGET: Final = Script("""
local key = KEYS[1]
local ratio, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local calls, wanted, returned, ttl = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local now = tonumber(redis.call('TIME')[1])
local earning, spent, seconds = calls, 0, {}
local found = redis.call('HGETALL', key)
for i = 1, #found, 2 do
  local sort, second, count = string.sub(found[i], 1, 1), tonumber(string.sub(found[i], 2)), tonumber(found[i + 1])
  if sort == 'c' and second > now - 10 then earning = earning + count
  elseif sort == 's' and second > now - 11 then spent = spent + count; seconds[second] = count
  else redis.call('HDEL', key, found[i]) end
end
if calls > 0 then redis.call('HINCRBY', key, 'c' .. string.format('%.0f', now), calls) end
for second = now, now - 10, -1 do
  local back = math.min(returned, seconds[second] or 0)
  if back > 0 then
    redis.call('HINCRBY', key, 's' .. string.format('%.0f', second), -back)
    returned = returned - back; spent = spent - back
  end
end
local granted = 0
while granted < wanted and spent + granted + 1 <= ratio * earning + floor + 1e-9 do granted = granted + 1 end
if granted > 0 then redis.call('HINCRBY', key, 's' .. string.format('%.0f', now), granted) end
redis.call('PEXPIRE', key, ttl)
return {granted, earning, spent + granted}
""")

# ARGV: the user, the version that it knows, numbers to write if that is still the version (empty:
# none), ttl in ms, lease of a user in us, and what the user has: three numbers, 0 for nothing, or
# - to leave it as it is.
# Numbers are never read here. A user that has not asked for its lease has nothing any more. A version
# is the time at which it was written, so that those of a limit that was lost do not come again.
LIMIT: Final = Script("""
local key, me, known, numbers = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local ttl, lease, mine = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function whole(number) return string.format('%.0f', number) end

local found = redis.call('HGETALL', key)
local version, written, others, before = '', '', {}, nil
for i = 1, #found, 2 do
  local name, value = found[i], found[i + 1]
  if name == 'version' then version = value
  elseif name == 'numbers' then written = value
  elseif name == me then before = value
  elseif (tonumber(string.match(value, '^%d+')) or 0) + lease < now then redis.call('HDEL', key, name)
  else others[#others + 1] = value end
end
if (tonumber(version) or 0) > now + 10000000 then  -- the clock was set back
  redis.call('DEL', key)
  version, written, others, before = '', '', {}, nil
end

local is_proposal, is_written = numbers ~= '', 0
if is_proposal and ttl > 0 and (version == '' or version == known) then
  is_written = 1
  version = whole(math.max(now, (tonumber(version) or 0) + 1))
  known = version
  redis.call('HSET', key, 'version', version)
  redis.call('HSET', key, 'numbers', numbers)
  redis.call('PEXPIRE', key, ttl)
end
if is_proposal and is_written == 0 then  -- it will be made again, with what the user has by then
  mine = before and string.gsub(before, '^%d+ ', '') or '-'
end
if mine == '0' then redis.call('HDEL', key, me)
elseif mine ~= '-' and version ~= '' then redis.call('HSET', key, me, whole(now) .. ' ' .. mine) end
return {is_written, version, whole(now), version == known and '' or written, others}
""")

# ARGV: the limits that are in force in one process: name and ttl in ms.
# A limit beyond the last 512 is not listed: processes that do not know it yet do not learn of it.
LIMITS: Final = Script("""
local key = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
redis.call('ZREMRANGEBYSCORE', key, now + 3600000, '+inf')
for i = 1, #ARGV, 2 do
  local ends = now + ARGV[i + 1]
  local before = redis.call('ZSCORE', key, ARGV[i])
  if not before or tonumber(before) < ends - 1000 then redis.call('ZADD', key, ends, ARGV[i]) end
end
redis.call('ZREMRANGEBYRANK', key, 0, -513)
local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
if last[2] then redis.call('PEXPIREAT', key, last[2]) end
return redis.call('ZRANGE', key, 0, -1)
""")
