"""The three Lua scripts of a store in Redis: become the owner, write, release the lease.

Each write is one script, so it is done completely or not at all. It first checks that the caller is
still the owner, that Redis has what the caller wrote last, and that the deadline has not passed.
`opening` grows with each owner and `revision` with each write of an owner, so a write that was
given up and arrives late changes nothing. Rule: what a script refuses has not been done.
"""

from __future__ import annotations

from typing import Final


# KEYS: owner, head. ARGV: token, lease in ms, format.
# Answers: {'in use', clock, ms left of the lease}, {'ok', clock, opening}.
ACQUIRE: Final = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local clock = string.format('%.6f', now)
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'string' then
  redis.call('RENAME', KEYS[1], KEYS[1] .. ':damaged:' .. clock)
end
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return {'in use', clock, redis.call('PTTL', KEYS[1])} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])  -- as in WRITE: an owner may open a full store, to make room
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local opening = math.floor(now * 1000000)
kind = redis.call('TYPE', KEYS[2]).ok
if kind == 'hash' then
  local head = redis.call('HMGET', KEYS[2], 'opening', 'format')
  opening = math.max(opening, (tonumber(head[1]) or 0) + 1)
  if head[2] and head[2] ~= ARGV[3] then kind = 'foreign' end
end
opening = string.format('%.0f', opening)
if kind == 'hash' then redis.call('HSET', KEYS[2], 'opening', opening, 'revision', '0') end
return {'ok', clock, opening}
"""

# KEYS: those of Keys.fixed, then the lists of sessions.
# ARGV: token, lease in ms, opening, the last acknowledged revision, the revision of this write, its
# deadline (by the server's clock), how (accept, defer, reset, close), format, the stamp for keys
# that are set aside, the numbers of the keys to set aside (' 2 5 '); then the commands: name,
# number of the key, number of values, values.
# Answers: {'taken', clock}: another process is the owner. {'late', clock}: the deadline has passed.
# {'stale', clock}: a later write was done. {'lost', clock}: Redis does not have the last write.
# {'ok', clock, names of the keys set aside ...}.
WRITE: Final = """
local token, lease, how, stamp = ARGV[1], ARGV[2], ARGV[7], ARGV[9]
local opening, known, revision = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local clock = string.format('%.6f', now)

local KINDS = {'string', 'hash', 'hash', 'hash', 'hash', 'hash', 'zset'}
local alien, has_alien = {}, false
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= (KINDS[i] or 'zset') then alien[i], has_alien = true, true end
end
local function sizes()
  local found = {}
  for i = 3, 6 do found[#found + 1] = redis.call('HLEN', KEYS[i]) end
  return table.concat(found, ',')
end

local owner = not alien[1] and redis.call('GET', KEYS[1])
if owner and owner ~= token then return {'taken', clock} end
local head = alien[2] and {} or redis.call('HMGET', KEYS[2], 'opening', 'revision', 'sizes')
local there, done = tonumber(head[1] or ''), tonumber(head[2] or '')
if there and there > opening then return {'taken', clock} end
if now > tonumber(ARGV[6]) then return {'late', clock} end
local answer = {'ok', clock}
if there == opening and done == revision then return answer end  -- the same write, repeated on a new connection
if there == opening and done and done > revision then return {'stale', clock} end
if how ~= 'reset' then
  if has_alien or there ~= opening or not done or done < known or head[3] ~= sizes() then return {'lost', clock} end
else
  for i, key in ipairs(KEYS) do
    if alien[i] or (string.find(ARGV[10], ' ' .. i .. ' ', 1, true) and redis.call('EXISTS', key) == 1) then
      local aside = key .. ':damaged:' .. stamp
      redis.call('RENAME', key, aside)
      answer[#answer + 1] = aside
    elseif i > 1 then
      redis.call('DEL', key)
    end
  end
end

-- In a full Redis the script fails at SET, unless an earlier command has written: so only new data is refused.
if how ~= 'accept' then redis.call('PEXPIRE', KEYS[1], lease) end
redis.call('SET', KEYS[1], token, 'PX', lease)
local at = 11
while at <= #ARGV do
  local count = tonumber(ARGV[at + 2])
  redis.call(ARGV[at], KEYS[tonumber(ARGV[at + 1])], unpack(ARGV, at + 3, at + 2 + count))
  at = at + 3 + count
end
redis.call('HSET', KEYS[2], 'format', ARGV[8], 'opening', ARGV[3], 'revision', ARGV[5], 'sizes', sizes())
if how == 'close' then redis.call('DEL', KEYS[1]) end
return answer
"""

# KEYS: owner. ARGV: token. Answer: {'ok', clock}.
RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {'ok', redis.call('TIME')[1]}
"""
