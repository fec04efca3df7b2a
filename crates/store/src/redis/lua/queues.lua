-- Names of queues, in order. ARGV[5]: from which one on, '' for the first; [6]: how many.
local least = ARGV[5] == '' and '-' or '[' .. ARGV[5]
return { micros, redis.call('ZRANGEBYLEX', QUEUES, least, '+', 'LIMIT', 0, tonumber(ARGV[6])) }
