-- Milliseconds since the epoch, `ms` from now, written without an exponent.
local function after(ms)
  local now = redis.call('TIME')
  return string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + ms)
end

-- The deadline of a thread whose index has `left` ms to live (PTTL), or nil where it has none. A new thread (-2) gets
-- `lifetime`; 0 is no deadline.
local function deadline_of(left, lifetime)
  if left == -2 and lifetime > 0 then
    return after(lifetime)
  end
  return left >= 0 and after(left) or nil
end

-- What data keys live at least while the deadline of a long thread that had none, or is to have none, is on its way: cut short,
-- they neither stay for ever nor go before anybody can repeat it.
local MEANWHILE = 30 * 24 * 3600 * 1000

-- Gives a key the thread's deadline, or none. PEXPIREAT rather than PEXPIRE: all keys of a thread agree to the millisecond.
local function hold(key, deadline)
  if deadline then
    redis.call('PEXPIREAT', key, deadline)
  else
    redis.call('PERSIST', key)
  end
end

-- The same for a key that holds data: it outlives the index by a second, so that a thread is gone before its parts are.
local function hold_data(key, deadline)
  hold(key, deadline and string.format('%.0f', deadline + 1000))
end
