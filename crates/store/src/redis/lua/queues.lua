-- Returns names of queues, in order. ARGV[5]: the first name, '' for the beginning; [6]: how many.
local least = ARGV[5] == '' and '-' or '[' .. ARGV[5]
return { micros, redis.call('ZRANGEBYLEX', QUEUES, least, '+', 'LIMIT', 0, tonumber(ARGV[6])) }
