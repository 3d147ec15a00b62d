-- Records totals of components, each in the current and in the previous cell of a subject.
--
-- A cell is a hash: a field for each component (24 bytes) with its largest total, and `s` with
-- their sum. Each key gets a time to live when it is created. Zero creates nothing.
--
-- KEYS  1 the shard's token; then of each record the current and the previous cell. A record
--       whose cell has none before it names that cell twice.
-- ARGV  1 the token to take if there is none (16 bytes); 2 its life in ms; 3 '1' renews that life;
--       then of each record: the component, the life of a cell in ms, the total and the previous
--       total.
--
-- Returns the token; then words of all records in one text, with a space between two: `!` for a
-- record that failed, or of the current and of the previous cell `-` if there is none, or the sum
-- now, the component's total before, and how many components there are now; then the errors of
-- those that failed. One text of hundreds of words takes less than as many values, here and where
-- it is read.
--
-- Numbers are doubles here. Totals are below 2^53 (the driver refuses others). A sum that a double
-- cannot hold is added up by HINCRBY, in 64-bit integers; sums and totals stay text.

local EXACT = 9007199254740992
-- Most of the time goes into calls, and some into looking up globals.
local call, format, KEYS, ARGV = redis.call, string.format, KEYS, ARGV

local words, size = {}, 0

local function answer(sum, had, components)
    words[size + 1], words[size + 2], words[size + 3] = sum, had, components
    size = size + 3
end

local function grow(key, component, text, sum, more)
    local grown = tonumber(sum) + more
    if grown < EXACT then
        grown = format('%.0f', grown)
        call('HSET', key, component, text, 's', grown)
        return grown
    end
    -- First the step that could fail, so that a cell never holds half a record.
    call('HINCRBY', key, 's', format('%.0f', more))
    call('HSET', key, component, text)
    return call('HGET', key, 's')
end

local function record(key, component, life, text)
    local held = call('HMGET', key, component, 's')
    local had, sum = held[1] or '0', held[2]
    if sum then
        local total, more = had, tonumber(text) - tonumber(had)
        if more > 0 then
            total, sum = text, grow(key, component, text, sum, more)
        end
        -- Nobody is there with nothing: whose total is the sum is the only one.
        answer(sum, had, total == sum and 1 or call('HLEN', key) - 1)
    elseif text == '0' then
        size = size + 1
        words[size] = '-'
    else
        call('HSET', key, component, text, 's', text)
        call('PEXPIRE', key, life)
        answer(text, '0', 1)
    end
end

local function both(key, arg)
    local component, life = ARGV[arg], ARGV[arg + 1]
    record(KEYS[key], component, life, ARGV[arg + 2])
    record(KEYS[key + 1], component, life, ARGV[arg + 3])
end

-- Some servers raise a table and some a text, and some write the line before the code.
local function failure(why)
    local text = type(why) == 'table' and why.err or tostring(why)
    return {err = string.match(text, '%u%u%u+ .*') or 'ERR ' .. text}
end

local token = call('GET', KEYS[1])
if not token then
    token = ARGV[1]
    call('SET', KEYS[1], token, 'PX', ARGV[2])
end
local reply = {token, ''}
for key = 2, #KEYS, 2 do
    local before = size
    -- What is wrong with one record is not told of the others.
    local done, why = pcall(both, key, 2 * key)
    if not done then
        size = before + 1
        words[size] = '!'
        reply[#reply + 1] = failure(why)
    end
end
-- What a record had said before it failed may lie behind the last word.
reply[2] = table.concat(words, ' ', 1, size)
-- Last: once a script has written, a server whose memory is full lets it write on.
if ARGV[3] == '1' then
    call('PEXPIRE', KEYS[1], ARGV[2])
end
return reply
