-- The board of a region: who the region is, who leads, what is posted and when it is due.
--
-- A post is a field of a hash: its place (32 bytes: subject, window, sequence) with the smallest
-- step that was posted. Every key gets a time to live when it is written. A life of 0 ends a key,
-- so that the right to delete any key is not needed.
--
-- KEYS  1 the posts, 2 when the first of them is due (ms of this server's clock), 3 who leads,
--       4 who the region is. All in one slot.
-- ARGV  1 who asks (16 bytes); 2 who it takes the region for (16 bytes); 3 '1' if it is sure;
--       4 the life of that in ms; 5 for how long it wants to lead in ms, '0' gives up; 6 most posts
--       it takes; 7 '1' takes even if nothing is due; 8 in how many ms its posts are due; 9 the
--       life of posts in ms; 10 most posts there may be; then the place of each post; then the step
--       of each, in the same order.
--
-- Returns who the region is; 1 if who asks leads, or 0; in how many ms something is due, or false;
-- then of each post it takes the place and the step.
--
-- Numbers are doubles here. Moments and steps are below 2^53 (the driver sees to that), windows and
-- sequences stay bytes.

local FIXED = 10
local call, min, max = redis.call, math.min, math.max
local POSTS, DUE, LEADER, REGION = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local held = call('MGET', DUE, LEADER, REGION)
local due, leader, region = held[1] and tonumber(held[1]), held[2], held[3]
local who, sure = ARGV[1], ARGV[3] == '1'

-- What the posts change: new places while there is room, and smaller steps.
local function changes(count)
    local size, most = call('HLEN', POSTS), tonumber(ARGV[10])
    local before = call('HMGET', POSTS, unpack(ARGV, FIXED + 1, FIXED + count))
    local changed = {}
    for i = 1, count do
        local place, step = ARGV[FIXED + i], ARGV[FIXED + count + i]
        -- A place may be there twice.
        local has = changed[place] or before[i]
        if has then
            if tonumber(step) < tonumber(has) then
                changed[place] = step
            end
        elseif size < most then
            changed[place] = step
            size = size + 1
        end
    end
    return changed
end

local function post(count)
    local words, size = {}, 0
    for place, step in pairs(changes(count)) do
        words[size + 1], words[size + 2] = place, step
        size = size + 2
    end
    if size > 0 then
        call('HSET', POSTS, unpack(words))
    end
    call('PEXPIRE', POSTS, ARGV[9])
    local soon = now + ARGV[8]
    due = due and min(due, soon) or soon
    call('SET', DUE, string.format('%.0f', due), 'PX', ARGV[9])
end

local function lead()
    local lease = ARGV[5]
    if leader and leader ~= who then
        return false
    elseif leader then
        -- Not SET: a server whose memory is full still lets the one who leads go on.
        call('PEXPIRE', LEADER, lease)
    elseif lease ~= '0' then
        call('SET', LEADER, who, 'PX', lease)
    end
    return lease ~= '0'
end

-- All there are, or some without a walk over the others.
local function take(reply)
    local most, size = tonumber(ARGV[6]), call('HLEN', POSTS)
    local posts = most > 0 and call('HRANDFIELD', POSTS, most, 'WITHVALUES') or {}
    local places = {}
    for i = 1, #posts, 2 do
        places[(i + 1) / 2] = posts[i]
        reply[i + 3], reply[i + 4] = posts[i], posts[i + 1]
    end
    if #places > 0 then
        call('HDEL', POSTS, unpack(places))
    end
    if #places == size then
        call('PEXPIRE', DUE, 0)
        due = nil
    end
end

local function answer()
    local known = region and (region == ARGV[2] or not sure)
    if not known then
        region = ARGV[2]
        call('SET', REGION, region, 'PX', ARGV[4])
    end
    local count = (#ARGV - FIXED) / 2
    if count > 0 then
        post(count)
    end
    local leads = lead()
    local reply = {region, leads and 1 or 0, false}
    if leads and (ARGV[7] == '1' or due and due <= now) then
        take(reply)
    end
    -- Late: once a script has written, a server whose memory is full lets it write on.
    if known and sure then
        call('PEXPIRE', REGION, ARGV[4])
    end
    if due then
        reply[3] = max(due - now, 0)
    end
    return reply
end

local done, result = pcall(answer)
if done then
    return result
end
-- Some servers raise a table and some a text, and some write the line before the code.
local text = type(result) == 'table' and result.err or tostring(result)
return {err = string.match(text, '%u%u%u+ .*') or 'ERR ' .. text}
