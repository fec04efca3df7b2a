-- What hands out, or gives versions or epochs, needs a memory that has begun, on this very server: a replica that took over may
-- lack what its master gave last, and has the same incarnation.
if GENERATION == 0 then return redis.error_reply('UNBEGUN the partition has not begun') end
if SERVER ~= (string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-') then
  return redis.error_reply('INCARNATION the partition is on another server')
end

