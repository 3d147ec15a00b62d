-- A call that is to be answered once: who decides it, and what the answer was.
--
-- The key holds a letter, the fingerprint of the call (16 bytes), and the rest: `p` with who
-- decides it (16 bytes), or `d` with the reply. It gets a time to live with every write. A life of
-- 0 ends it, so that the right to delete any key is not needed.
--
-- KEYS  1 the call.
-- ARGV  1 `claim`, `settle` or `release`; 2 the fingerprint; 3 who asks (16 bytes); 4 how long it
--       is to be kept in ms; 5 the reply, to settle.
--
-- Returns to `claim` {0} if who asks may decide, {1} if someone else does, {2, reply}, or {3} if
-- the name belongs to another call. To the others {1} if it was done, or {0}.

local call = redis.call
local CALL, verb, fingerprint, who = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local function answer()
    local held = call('GET', CALL)
    local state = held and string.sub(held, 1, 1)
    local same = held and string.sub(held, 2, 17) == fingerprint
    local rest = held and string.sub(held, 18)
    -- Who asks may have been told so before, and not have heard it.
    local mine = state == 'p' and same and rest == who
    if verb == 'claim' then
        if held and not same then
            return {3}
        elseif state == 'd' then
            return {2, rest}
        elseif held and not mine then
            return {1}
        end
        call('SET', CALL, 'p' .. fingerprint .. who, 'PX', ARGV[4])
        return {0}
    elseif verb == 'settle' then
        -- The first reply stands. A claim that lapsed may be another's by now: this reply is as
        -- good.
        if held and (state == 'd' or not same) then
            return {0}
        end
        call('SET', CALL, 'd' .. fingerprint .. ARGV[5], 'PX', ARGV[4])
        return {1}
    elseif mine then
        call('PEXPIRE', CALL, 0)
        return {1}
    end
    return {0}
end

local done, result = pcall(answer)
if done then
    return result
end
-- Some servers raise a table and some a text, and some write the line before the code.
local text = type(result) == 'table' and result.err or tostring(result)
return {err = string.match(text, '%u%u%u+ .*') or 'ERR ' .. text}
