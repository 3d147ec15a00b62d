-- Records totals of components, as record.lua does, and grants costs that wait: those that fit
-- beside what the cells hold then. All in one step.
--
-- First everything is read and decided, and then written, so that a key that is no cell, a server
-- that is full and one that takes no writes leave everything as it was.
--
-- KEYS  1 the shard's token; then of each cell: the current one, the previous one, and the answer
--       to the last operation of the component. A cell that has none before it names itself twice.
--       Each cell is of another subject.
-- ARGV  1 the token to take if there is none (16 bytes); 2 its life in ms; 3 the token that is
--       meant; 4 the operation; 5 the life of an answer in ms; then of each cell: the component,
--       the life of a cell in ms, the total, the previous total, the least that is used of both,
--       what other regions used of the previous one, the rest of the window and the window in ms;
--       then of each unit: how often it is wanted, how many wants it has, and of each want the
--       cell, counted from 1, the cost, and what the window may hold with it.
--
-- Returns the token; then an error, or of each cell: of the current and of the previous one false
-- if there is none, or the sum now, the component's total before, and how many components there
-- are now; then what was granted of it; and then of each unit how often it is granted, -1 if the
-- operation is out of date, or -2 if another token is meant.
--
-- An answer is text: the operation, and what became of the units that name the cell first.
--
-- Numbers are doubles here. The driver sees to it that what may be held is at most 2^51 - 1, so
-- that something is granted only where a sum is small; other numbers are below 2^53, and windows
-- below 2^32. A sum that a double cannot hold is added up by HINCRBY, in 64-bit integers.

local EXACT, SUM_MAX, HALF = 9007199254740992, 2251799813685247, 65536
local FIXED, EACH = 5, 9
local CONFLICT, STRANGER = -1, -2
-- Most of the time goes into calls, and some into looking up globals.
local call, format, floor, min, max = redis.call, string.format, math.floor, math.min, math.max
local KEYS, ARGV = KEYS, ARGV

local operation, count = tonumber(ARGV[4]), (#KEYS - 1) / 3
local names = {KEYS[1]}
for at = 1, count do
    names[at + 1] = KEYS[3 * at + 1]
end
local texts = call('MGET', unpack(names))
local token = texts[1]
if not token then
    token = ARGV[1]
    call('SET', KEYS[1], token, 'PX', ARGV[2])
end
local meant = token == ARGV[3]

-- a * b / c, rounded down, for b <= c. If the product is too large for a double, b is multiplied
-- in two halves, and what c divides of each is taken off before it can be.
local function share(a, b, c)
    if a * b < EXACT then
        return floor(a * b / c)
    end
    local whole, high = floor(a / c), floor(b / HALF)
    local rest = a - whole * c
    local top = floor(rest * high / c)
    local low = (rest * high - top * c) * HALF + rest * (b - high * HALF)
    return whole * b + top * HALF + floor(low / c)
end

-- What is held of a cell, and how much more the total makes it.
local function look(key, component, total)
    local got = call('HMGET', key, component, 's')
    local had, sum = got[1] or '0', got[2]
    -- Nobody is there with nothing: whose total is the sum is the only one.
    local components = sum and (had == sum and 1 or call('HLEN', key) - 1) or 0
    return {key = key, had = had, sum = sum, components = components, more = max(total - had, 0)}
end

-- What was answered to the same operation before.
local function again(at)
    local grants = {}
    for word in string.gmatch(texts[at + 1], ' (%-?%d+)') do
        grants[#grants + 1] = tonumber(word)
    end
    return grants
end

-- What is known of a cell when the units are looked at. Both cells count, and what is told of them.
local function read(at)
    local key, arg = 3 * at - 1, FIXED + EACH * (at - 1)
    local component, total = ARGV[arg + 1], ARGV[arg + 3]
    local current = look(KEYS[key], component, total)
    local previous = KEYS[key + 1] ~= KEYS[key] and look(KEYS[key + 1], component, ARGV[arg + 4])
    local used = min(max((current.sum or 0) + current.more, ARGV[arg + 5] + 0), SUM_MAX)
    local before = previous and (previous.sum or 0) + previous.more or 0
    before = min(max(before, ARGV[arg + 6] + 0) + ARGV[arg + 7], SUM_MAX)
    if before > 0 then
        used = used + share(before, ARGV[arg + 8] + 0, ARGV[arg + 9] + 0)
    end
    local last = texts[at + 1] and tonumber(string.match(texts[at + 1], '^%d+'))
    return {
        component = component, life = ARGV[arg + 2], current = current, previous = previous,
        before = used, used = used, last = last, again = last == operation and again(at),
        late = last and last >= operation or current.had - total > 0, answers = {ARGV[4]}, size = 1,
    }
end

local cells, grants, units = {}, {}, 0

-- How often a unit fits that wants one cost.
local function grant_one(from, times)
    local cell, cost = cells[ARGV[from] + 0], ARGV[from + 1] + 0
    local room = ARGV[from + 2] - cell.used - cost
    if room < 0 then
        return 0
    elseif times > 1 and cost > 0 then
        times = min(times, floor(room / cost) + 1)
    end
    cell.used = cell.used + times * cost
    return times
end

-- How often a unit fits. Each time it wants the same of a cell, so that a division tells; and each
-- want must fit beside those before it.
local function grant(from, to, times)
    for i = from, to, 3 do
        local cell = cells[ARGV[i] + 0]
        cell.each, cell.taken = 0, 0
    end
    for i = from, to, 3 do
        local cell = cells[ARGV[i] + 0]
        cell.each = cell.each + ARGV[i + 1]
    end
    for i = from, to, 3 do
        local cell = cells[ARGV[i] + 0]
        cell.taken = cell.taken + ARGV[i + 1]
        local room = ARGV[i + 2] - cell.used - cell.taken
        if room < 0 then
            return 0
        elseif cell.each > 0 then
            times = min(times, floor(room / cell.each) + 1)
        end
    end
    for i = from, to, 3 do
        local cell = cells[ARGV[i] + 0]
        cell.used = cell.used + times * ARGV[i + 1]
    end
    return times
end

-- What becomes of a unit, by the first cell that it names.
local function decide(first, from, to, times)
    if first.again then
        -- One that never wanted so much was another process's with the same name.
        local granted = first.again[first.size]
        return granted and granted >= 0 and granted <= times and granted or CONFLICT
    end
    for i = from, to, 3 do
        if cells[ARGV[i] + 0].late then
            return CONFLICT
        end
    end
    return from + 2 == to and grant_one(from, times) or grant(from, to, times)
end

local function decide_all()
    local arg, last = FIXED + EACH * count + 1, #ARGV
    while arg < last do
        local from, to = arg + 2, arg + 1 + 3 * ARGV[arg + 1]
        local first, granted = cells[ARGV[from] + 0], STRANGER
        if meant then
            granted = decide(first, from, to, ARGV[arg] + 0)
            first.size = first.size + 1
            first.answers[first.size] = granted
            first.granted = first.granted or granted > 0
        end
        units = units + 1
        grants[units] = granted
        arg = to + 1
    end
end

-- Adds what the total and the grants make more.
local function grow(cell, held, granted)
    local more = held.more + granted
    if more == 0 then
        return
    end
    local key, component = held.key, cell.component
    local sum, fresh = (held.sum or 0) + more, not held.sum
    if sum < EXACT then
        held.sum = format('%.0f', sum)
        call('HSET', key, component, format('%.0f', held.had + more), 's', held.sum)
    else
        -- First the step that could fail, so that a cell never holds half a record.
        local text = format('%.0f', more)
        call('HINCRBY', key, 's', text)
        call('HINCRBY', key, component, text)
        held.sum = call('HGET', key, 's')
    end
    if fresh then
        call('PEXPIRE', key, cell.life)
    end
    if held.had == '0' then
        held.components = held.components + 1
    end
end

local function write(at)
    local cell = cells[at]
    if cell.previous then
        grow(cell, cell.previous, 0)
    end
    grow(cell, cell.current, cell.used - cell.before)
    -- What granted nothing need not be known again: it would grant nothing again.
    if cell.granted and (not cell.last or cell.last < operation) then
        call('SET', KEYS[3 * at + 1], table.concat(cell.answers, ' '), 'PX', ARGV[5])
    end
end

local reply, size = {token}, 1

local function tell(held)
    if held and held.sum then
        reply[size + 1], reply[size + 2], reply[size + 3] = held.sum, held.had, held.components
        size = size + 3
    else
        size = size + 1
        reply[size] = false
    end
end

local function ask()
    for at = 1, count do
        cells[at] = read(at)
    end
    decide_all()
    for at = 1, count do
        write(at)
    end
    for at = 1, count do
        tell(cells[at].current)
        tell(cells[at].previous)
        size = size + 1
        reply[size] = cells[at].used - cells[at].before
    end
    for i = 1, units do
        reply[size + i] = grants[i]
    end
end

local done, why = pcall(ask)
if done then
    return reply
end
-- Some servers raise a table and some a text, and some write the line before the code.
local text = type(why) == 'table' and why.err or tostring(why)
return {token, {err = string.match(text, '%u%u%u+ .*') or 'ERR ' .. text}}
