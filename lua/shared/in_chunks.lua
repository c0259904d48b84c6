-- Hands values[first..last] to `run`, a thousand arguments at a time: what `unpack` returns must fit Lua's stack.
local function in_chunks(run, values, first, last)
  for from = first, last, 1000 do
    run(unpack(values, from, math.min(from + 999, last)))
  end
end
