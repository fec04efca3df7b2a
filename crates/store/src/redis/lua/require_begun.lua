-- Scripts that hand out jobs, or assign versions or epochs, require a memory that has begun on this very server. A promoted
-- replica may lack its master's last writes, but has the same incarnation.
if GENERATION == 0 then return redis.error_reply('UNBEGUN the partition has not begun') end
if SERVER ~= (string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-') then
  return redis.error_reply('INCARNATION the partition is on another server')
end

