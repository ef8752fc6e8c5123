package redisfleet

import "github.com/redis/go-redis/v9"

// A field of the hash is a key. Its value begins with a head: the version and the end in 16 digits
// each, microseconds or zero for never, and the number of the batch that put it. The field without a name has the
// last version that was given out. Lua counts exactly up to 2^53, which are microseconds until 2255.
const (
	digits   = 16
	headSize = 3 * digits
)

// ARGV: the number of the batch; whether there is a swap, and if so its put and version; how many puts, and those;
// how many fields to read, and those; the prefix of those to list. A put is a field, 1 or 0 to
// delete it, for how long in microseconds, and the value.
//
// What lasts no longer is deleted when it is listed. Until then it is passed over.
const lua = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local hash, at = KEYS[1], 0
local function arg()
	at = at + 1
	return ARGV[at]
end
local function alive(value)
	local ends = tonumber(string.sub(value, 17, 32))
	return ends == 0 or ends >= now
end
local function get(field)
	local value = redis.call('HGET', hash, field)
	if value and alive(value) then return value end
	return nil
end
local batch = arg()
local function put(field, keep, lasts, value)
	if keep == '0' then
		redis.call('HDEL', hash, field)
		return
	end
	local version = math.max(now, (tonumber(redis.call('HGET', hash, '') or '0')) + 1)
	local ends = 0
	if tonumber(lasts) > 0 then ends = math.min(now + lasts, 9007199254740991) end
	redis.call('HSET', hash, '', string.format('%.0f', version), field, string.format('%016.0f%016.0f', version, ends) .. batch .. value)
end
local swapped = 1
if arg() == '1' then
	local field, keep, lasts, value, version = arg(), arg(), arg(), arg(), arg()
	local old = get(field)
	if old and string.sub(old, 33, 48) == batch then
		swapped = 2
	elseif (old and string.sub(old, 1, 16) or '0000000000000000') == version then
		put(field, keep, lasts, value)
	else
		swapped = 0
	end
end
for _ = 1, tonumber(arg()) do
	local field, keep, lasts, value = arg(), arg(), arg(), arg()
	if swapped == 1 then put(field, keep, lasts, value) end
end
local found = {string.format('%.0f', now), swapped}
local function add(field, value)
	found[#found + 1] = field
	found[#found + 1] = string.sub(value, 1, 16)
	found[#found + 1] = string.sub(value, 49)
end
for _ = 1, tonumber(arg()) do
	local field = arg()
	local value = get(field)
	if value then add(field, value) end
end
local prefix = arg()
if prefix ~= '' then
	local all = redis.call('HGETALL', hash)
	for i = 1, #all, 2 do
		local field, value = all[i], all[i + 1]
		if field ~= '' and string.sub(field, 1, #prefix) == prefix then
			if alive(value) then
				add(field, value)
			else
				redis.pcall('HDEL', hash, field)
			end
		end
	end
end
return found`

var script = redis.NewScript(lua)
